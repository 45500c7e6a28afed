#include "lathe/plan/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/base/file.h"
#include "lathe/base/queue.h"
#include "lathe/base/units.h"
#include "lathe/base/view.h"
#include "lathe/model/config.h"
#include "lathe/model/transformer.h"
#include "lathe/parallel/params.h"
#include "lathe/plan/machine.h"
#include "lathe/plan/memory.h"
#include "lathe/plan/per_parameter.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::plan {

namespace {

constexpr std::size_t kTakesShown = 3;

double total_flops(const Work& w) { return w.product_flops + w.attention_flops + w.other_flops; }

std::string row(const std::string& name, i64 bytes, const std::string& more) {
  return fmt::format("  {:<12} {:>18} {:>10}{}{}\n", name, grouped(bytes), bytes_text(bytes),
                     more.empty() ? "" : "   ", more);
}

std::string largest_takes(const train::Footprint::Part& p) {
  std::string s;
  for (std::size_t i = 0; i < std::min(kTakesShown, p.by_name.size()); ++i)
    s += fmt::format("{}{} {}", i == 0 ? "" : ", ", p.by_name[i].first,
                     bytes_text(p.by_name[i].second));
  if (p.by_name.size() > kTakesShown)
    s += fmt::format(", and {} more", p.by_name.size() - kTakesShown);
  return s;
}

std::string model_line(const model::ModelConfig& m) {
  std::string heads = fmt::format("{} heads of {}", m.heads, m.head_dim);
  if (m.kv_heads != m.heads) heads += fmt::format(" over {} of keys and values", m.kv_heads);
  return fmt::format("{}: {} layers, width {}, {}, hidden {}, vocabulary {}, context {}{}",
                     m.family, m.layers, m.width, heads, m.hidden, grouped(m.vocab), m.context,
                     m.tied == 1 ? ", tied head" : "");
}

std::string work_row(const char* name, double step, i64 tokens) {
  return fmt::format("  {:<12} {:>10} a step {:>10} a token\n", name, count_text(step),
                     count_text(step / static_cast<double>(tokens)));
}

i64 held_bytes(const train::Footprint& f) {
  return f.part("weights") + f.part("gradients") + f.part("state");
}

}  // namespace

double model_flops_per_token(const train::RunConfig& c) {
  const model::ModelConfig& m = c.model;
  i64 multiplied = 0;
  for (const parallel::ParamSpec& s : model::param_specs(m)) {
    const bool looked_up =
        s.role == parallel::Role::position || (s.role == parallel::Role::embedding && m.tied == 0);
    if (!looked_up) multiplied += s.size();
  }
  return 6.0 * static_cast<double>(multiplied) + 12.0 * static_cast<double>(m.layers) *
                                                     static_cast<double>(m.heads * m.head_dim) *
                                                     static_cast<double>(m.context);
}

std::string memory_table(const train::Footprint& f, const Memory& m) {
  std::string s = fmt::format("memory {:>26}\n", "bytes");
  for (const train::Footprint::Part& p : f.parts) s += row(p.name, p.bytes, largest_takes(p));
  s += row("total", f.total(), "");
  if (m.usable() >= 0)
    s += row("available", m.usable(), fmt::format("limited by {}", m.limited_by()));
  return s;
}

std::string page(const train::RunConfig& c, const train::Footprint& f, const Memory& m) {
  const train::TrainSection& t = c.train;
  std::string s = fmt::format("model        {}\n", model_line(c.model));
  s += fmt::format("parameters   {}\n", grouped(f.parameters));
  s += fmt::format(
      "step         {} tokens: {} sequences of {}, {} at a time; {} steps see {} tokens\n",
      grouped(f.tokens_per_step), t.global_batch, c.model.context, t.micro_batch, grouped(t.steps),
      count_text(static_cast<double>(t.steps) * static_cast<double>(f.tokens_per_step)));
  s += fmt::format("recipe       {}, recompute {}\n\n", train::recipe_of(c).name, t.recompute);
  s += memory_table(f, m);
  s += "\n" + parameter_table(c, held_bytes(f));
  s += "\nwork, in operations\n";
  s += work_row("products", f.step.product_flops, f.tokens_per_step);
  s += work_row("attention", f.step.attention_flops, f.tokens_per_step);
  s += work_row("other", f.step.other_flops, f.tokens_per_step);
  s += work_row("total", total_flops(f.step), f.tokens_per_step);
  s += fmt::format("  {:<12} {:>10} a token by the estimate 6 N + 12 L C T\n", "estimate",
                   count_text(model_flops_per_token(c)));
  s += fmt::format("  {:<12} {:>10} moved a step\n", "bytes", count_text(f.step.bytes) + "B");
  const i64 disk = saved_bytes(c), left = free_disk(c.run.folder);
  s += fmt::format(
      "\ndisk         {} a checkpoint, {} are kept, and one more while it is written: {}",
      bytes_text(disk), t.keep_checkpoints, bytes_text((t.keep_checkpoints + 1) * disk));
  s += left < 0 ? "\n" : fmt::format("; {} free at {}\n", bytes_text(left), c.run.folder);
  return s;
}

std::string page_json(const train::RunConfig& c, const train::Footprint& f, const Memory& m) {
  using Json = nlohmann::ordered_json;
  Json memory = Json::object();
  for (const train::Footprint::Part& p : f.parts) {
    Json takes = Json::object();
    for (const auto& [name, bytes] : p.by_name) takes[name] = bytes;
    memory[p.name] = {{"bytes", p.bytes}, {"by_name", takes}};
  }
  Json parameters = Json::object();
  for (const ParameterBytes& b : bytes_per_parameter(c))
    parameters[b.name] = {{"parameters", b.parameters}, {"weights", b.weights},
                          {"masters", b.masters},       {"gradients", b.gradients},
                          {"moments", b.moments},       {"scales", b.scales},
                          {"total", b.total()}};
  const auto tokens = static_cast<double>(f.tokens_per_step);
  const Json j{
      {"parameters", f.parameters},
      {"tokens_per_step", f.tokens_per_step},
      {"steps", c.train.steps},
      {"memory", memory},
      {"memory_total", f.total()},
      {"parameter_bytes", parameters},
      {"memory_available", m.usable()},
      {"fits", m.usable() < 0 || f.total() + kProcessBytes <= m.usable()},
      {"flops_per_step",
       {{"products", f.step.product_flops},
        {"attention", f.step.attention_flops},
        {"other", f.step.other_flops},
        {"total", total_flops(f.step)}}},
      {"flops_per_token", total_flops(f.step) / tokens},
      {"model_flops_per_token", model_flops_per_token(c)},
      {"bytes_moved_per_step", f.step.bytes},
      {"checkpoint_bytes", saved_bytes(c)},
      {"config", train::to_toml(c)},
  };
  return j.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lathe::plan
