#include "tests/structure/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::structure {

namespace {

struct Include {
  int line;
  std::string path;
  bool ours;  // in quotes
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<Include> includes_of(const SourceFile& f) {
  std::vector<Include> out;
  int number = 0;
  for (const std::string& line : lines_of(f.text)) {
    ++number;
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const std::size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    const std::size_t open = line.find_first_of("\"<", word + 7);
    if (open == std::string::npos) continue;
    const bool ours = line[open] == '"';
    const std::size_t close = line.find(ours ? '"' : '>', open + 1);
    if (close != std::string::npos)
      out.push_back({number, line.substr(open + 1, close - open - 1), ours});
  }
  return out;
}

/// "kernels" of "lathe/kernels/avx2/norm.cpp"; empty outside lathe/.
std::string folder_of(std::string_view path) {
  constexpr std::string_view kRoot = "lathe/";
  if (!path.starts_with(kRoot)) return {};
  path.remove_prefix(kRoot.size());
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string() : std::string(path.substr(0, slash));
}

bool in_isa_folder(std::string_view path) {
  constexpr std::array<std::string_view, 4> kIsa{"avx2", "avx512", "avx512bf16", "amx"};
  return std::any_of(kIsa.begin(), kIsa.end(), [&](std::string_view isa) {
    return path.starts_with(fmt::format("lathe/kernels/{}/", isa));
  });
}

bool is_header(std::string_view path) { return path.ends_with(".h"); }

/// What each folder may include beside itself.
const std::map<std::string, std::set<std::string>>& below() {
  static const std::map<std::string, std::set<std::string>> allowed = [] {
    std::map<std::string, std::set<std::string>> m;
    std::set<std::string> lower;
    for (const char* name :
         {"base", "numerics", "kernels", "comm", "parallel", "model", "optim", "train"}) {
      m[name] = lower;
      lower.insert(name);
    }
    for (const char* name : {"data", "world", "report"}) m[name] = {"base"};
    m["train"].insert("data");
    lower.insert("data");
    m["plan"] = lower;
    m["rl"] = lower;
    m["rl"].insert("world");
    lower.insert({"plan", "rl", "world", "report"});
    m["cli"] = lower;
    return m;
  }();
  return allowed;
}

}  // namespace

Violations layer_order(const SourceFile& f) {
  Violations out;
  if (!f.path.starts_with("lathe/")) return out;
  const std::string from = folder_of(f.path);
  const auto rule = below().find(from);
  if (rule == below().end())
    return {fmt::format("{}:1: the folder lathe/{} has no place in the order", f.path, from)};
  for (const Include& i : includes_of(f)) {
    const std::string to = folder_of(i.path);
    if (i.ours && to.empty())
      out.push_back(fmt::format("{}:{}: \"{}\" is not below lathe/", f.path, i.line, i.path));
    else if (!to.empty() && to != from && !rule->second.contains(to))
      out.push_back(fmt::format("{}:{}: {} may not include {}", f.path, i.line, from, i.path));
  }
  return out;
}

Violations heavy_headers(const SourceFile& f) {
  constexpr std::array<std::string_view, 6> kHeavy{"toml++/toml.h", "mpi.h",
                                                   "immintrin.h",   "nlohmann/json.hpp",
                                                   "CLI/CLI.hpp",   "benchmark/benchmark.h"};
  Violations out;
  if (!is_header(f.path) || !f.path.starts_with("lathe/")) return out;
  for (const Include& i : includes_of(f)) {
    if (std::find(kHeavy.begin(), kHeavy.end(), i.path) == kHeavy.end()) continue;
    if (i.path == "immintrin.h" && in_isa_folder(f.path)) continue;
    out.push_back(fmt::format("{}:{}: <{}> in a header", f.path, i.line, i.path));
  }
  return out;
}

Violations isa_includes(const SourceFile& f) {
  constexpr std::array<std::string_view, 12> kRefused{
      "vector", "string", "map",  "unordered_map", "set",      "functional",
      "memory", "array",  "span", "iostream",      "optional", "fmt/format.h"};
  Violations out;
  if (!in_isa_folder(f.path)) return out;
  for (const Include& i : includes_of(f)) {
    const bool foreign = i.ours && i.path != "lathe/base/view.h" &&
                         i.path != "lathe/base/queue.h" && !i.path.starts_with("lathe/kernels/") &&
                         i.path != "lathe/numerics/format.h";
    if (foreign || std::find(kRefused.begin(), kRefused.end(), i.path) != kRefused.end())
      out.push_back(
          fmt::format("{}:{}: {} in a file of one instruction set", f.path, i.line, i.path));
  }
  return out;
}

Violations file_length(const SourceFile& f) {
  constexpr std::ptrdiff_t kMost = 400;
  const auto lines = std::count(f.text.begin(), f.text.end(), '\n');
  if (lines <= kMost) return {};
  return {fmt::format("{}:{}: {} lines, more than {}", f.path, kMost + 1, lines, kMost)};
}

Violations header_guard(const SourceFile& f) {
  if (!is_header(f.path) || f.text.starts_with("#pragma once\n")) return {};
  return {fmt::format("{}:1: no #pragma once in the first line", f.path)};
}

Violations refused_words(const SourceFile& f) {
  // Written in two halves, so that this file does not break its own rule.
  static const std::array<std::string, 6> refused{
      "TO"
      "DO",
      "FIX"
      "ME",
      "XX"
      "X:",
      "get"
      "env(",
      "fast"
      "-math",
      "using name"
      "space std"};
  Violations out;
  int number = 0;
  for (const std::string& line : lines_of(f.text)) {
    ++number;
    for (const std::string& word : refused)
      if (line.find(word) != std::string::npos)
        out.push_back(fmt::format("{}:{}: {} is refused", f.path, number, word));
  }
  return out;
}

std::vector<SourceFile> sources(const std::string& root) {
  namespace fs = std::filesystem;
  std::vector<SourceFile> out;
  for (const char* top : {"lathe", "tests", "bench"}) {
    if (!fs::is_directory(fs::path(root) / top)) continue;
    for (const fs::directory_entry& e : fs::recursive_directory_iterator(fs::path(root) / top)) {
      const std::string extension = e.path().extension().string();
      if (!e.is_regular_file() || (extension != ".h" && extension != ".cpp")) continue;
      std::ifstream in(e.path(), std::ios::binary);
      out.push_back({fs::relative(e.path(), root).generic_string(),
                     std::string(std::istreambuf_iterator<char>(in), {})});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return out;
}

}  // namespace lathe::structure
