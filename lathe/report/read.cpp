#include "lathe/report/read.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/report/format.h"

namespace lathe::report {

namespace {

using Json = nlohmann::ordered_json;

double number(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : kAbsent;
}

std::string string(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// A run that was stopped and went on may log a step again: the later line counts.
template <class Record>
void forget_from(std::vector<Record>& records, i64 step) {
  while (!records.empty() && records.back().step >= step) records.pop_back();
}

/// False when the line is no record of a step.
bool add_line(RunRecord& r, std::string_view line) {
  const Json j = Json::parse(line, nullptr, false);
  if (!j.is_object()) return false;
  const auto step = j.find("step");
  if (step == j.end() || !step->is_number_integer()) return false;
  StepRecord s;
  s.step = step->get<i64>();
  s.loss = number(j, "loss");
  s.grad_norm = number(j, "grad_norm");
  s.lr = number(j, "lr");
  s.tokens = number(j, "tokens");
  s.seconds = number(j, "seconds");
  s.tokens_per_second = number(j, "tokens_per_second");
  s.mfu = number(j, "mfu");
  s.rss = number(j, "rss");
  s.held_out_loss = number(j, "held_out_loss");
  const auto skipped = j.find("skipped");
  s.skipped = skipped != j.end() && *skipped == true;
  forget_from(r.steps, s.step);
  forget_from(r.samples, s.step);
  r.steps.push_back(s);
  if (std::string text = string(j, "sample"); !text.empty())
    r.samples.push_back({s.step, std::move(text)});
  return true;
}

void read_log(RunRecord& r, const std::string& path) {
  // Not mapped: a trainer that starts again cuts it.
  const std::string text = read_file(path);
  std::string_view rest = text;
  i64 line_number = 0;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || add_line(r, line)) continue;
    if (r.unreadable_lines++ == 0) r.first_unreadable = line_number;
  }
  if (r.steps.empty() && r.unreadable_lines > 0)
    throw Error("no line of the log is a JSON object with a \"step\"")
        .at(path, static_cast<int>(r.first_unreadable))
        .hint("a log has lines such as {{\"step\": 1, \"loss\": 8.3}}; is this a run folder?");
}

/// Memory is a list of {"name", "bytes"} or an object of numbers.
void read_memory(RunRecord& r, const Json& memory) {
  for (const auto& [key, value] : memory.items()) {
    const std::string name = memory.is_array() ? string(value, "name") : key;
    const double bytes = value.is_number()   ? value.get<double>()
                         : value.is_object() ? number(value, "bytes")
                                             : kAbsent;
    if (!name.empty() && name != "total" && bytes >= 0) r.memory.emplace_back(name, bytes);
  }
}

void read_facts(RunRecord& r, const std::string& path) {
  const Json j = Json::parse(read_file(path), nullptr, false);
  if (!j.is_object())
    throw Error("this is no JSON object").at(path).hint("remove it: the page then does without");
  for (const auto& [key, value] : j.items()) {
    if (key == "memory" && value.is_structured()) read_memory(r, value);
    if (value.is_string()) r.facts.emplace_back(key, value.get<std::string>());
    if (value.is_boolean()) r.facts.emplace_back(key, value.dump());
    if (!value.is_number() || key.starts_with("memory")) continue;
    const double v = value.get<double>();
    r.facts.emplace_back(key, v < 1e5 ? value.dump() : count(v));
  }
  r.parameters = number(j, "parameters");
  r.flops_per_step = number(j, "flops_per_step");
}

void read_config(RunRecord& r, const std::string& path) {
  r.config = read_file(path);
  try {
    const ConfigFile file = ConfigFile::parse(r.config, path);
    if (const auto* v = file.find("train.steps"))
      if (const i64* steps = std::get_if<i64>(&v->value))
        r.total_steps = static_cast<double>(*steps);
    if (const auto* v = file.find("train.sample_prompt"))
      if (const auto* prompt = std::get_if<std::string>(&v->value)) r.prompt = *prompt;
  } catch (const Error&) {
    // A file that no longer parses is still worth showing as it is.
    r.total_steps = kAbsent;
  }
}

}  // namespace

RunRecord read_run(const std::string& folder) {
  RunRecord r;
  r.folder = folder;
  const std::string log = folder + "/log.jsonl";
  if (!is_folder(folder))
    throw Error("there is no run folder {}", folder)
        .hint("give the folder that run.folder names in the run file");
  if (!exists(log))
    throw Error("{} holds no log.jsonl", folder)
        .at(folder)
        .hint("`lathe train` writes one from the first step on");
  read_log(r, log);
  if (exists(folder + "/run.json")) read_facts(r, folder + "/run.json");
  if (exists(folder + "/config.toml")) read_config(r, folder + "/config.toml");
  return r;
}

}  // namespace lathe::report
