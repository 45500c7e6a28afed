#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/log.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/cli/command.h"
#include "lathe/data/tokenizer.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/decode.h"
#include "lathe/model/generate.h"
#include "lathe/model/llama2c.h"
#include "lathe/model/sampler.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"
#include "lathe/plan/memory.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/sampling.h"

namespace lathe::cli {
namespace {

struct SampleOptions {
  std::string model, prompt, tokenizer;
  MachineOptions machine;
  i64 tokens = 256, seed = 1;
  model::Sampling sampling;
  bool use_previous = false, json = false;
};

void declare(CLI::App& a, SampleOptions& o) {
  a.add_option("model", o.model, "run folder, checkpoint folder, or a llama2.c model (.bin)")
      ->required();
  a.add_option("--prompt", o.prompt, "text to go on from; none: a new document");
  a.add_option("--tokens", o.tokens, "how many to write at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  a.add_option("--temperature", o.sampling.temperature,
               "divides the logits; 0: always the most likely token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  a.add_option("--top-k", o.sampling.top_k, "only the k most likely tokens take part; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  a.add_option("--top-p", o.sampling.top_p,
               "only the most likely tokens that together reach this probability")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  a.add_option("--seed", o.seed, "the same seed writes the same text")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  a.add_option("--tokenizer", o.tokenizer,
               "tokenizer.json or tok*.bin; a run folder has its own, a .bin model needs one");
  declare_machine(a, o.machine);
  a.add_flag("--use-previous", o.use_previous, "the checkpoint before the latest");
  a.add_flag("--json", o.json, "print one JSON object, at the end");
}

/// A model with its words, wherever it came from.
struct Source {
  model::ModelConfig config;
  std::unique_ptr<const numerics::Recipe> recipe;
  Arena weights;
  parallel::ParamSet params;
  data::Tokenizer tokenizer;
};

Source read_llama2c(const SampleOptions& o) {
  const model::Llama2c file(o.model);
  if (o.tokenizer.empty())
    throw Error("a llama2.c model does not hold its tokenizer")
        .at(o.model)
        .hint("add --tokenizer tokenizer.bin");
  auto recipe = std::make_unique<const numerics::Recipe>(numerics::recipe("fp32"));
  Arena measured("weights");
  const parallel::ParamSet dry(model::param_specs(file.config()), *recipe, measured, nullptr);
  Arena weights("weights", measured.peak());
  parallel::ParamSet params(model::param_specs(file.config()), *recipe, weights, nullptr);
  file.read_weights(params);
  return {file.config(), std::move(recipe), std::move(weights), std::move(params),
          data::Tokenizer::load(o.tokenizer)};
}

Source read_checkpoint(const SampleOptions& o) {
  train::LoadedModel m =
      train::load_model(o.model, o.use_previous ? train::Pick::previous : train::Pick::latest);
  const std::string& tokenizer = o.tokenizer.empty() ? m.tokenizer_path : o.tokenizer;
  if (tokenizer.empty())
    throw Error("this checkpoint was written without a tokenizer")
        .at(m.folder)
        .hint("add --tokenizer tokenizer.json");
  return {m.info.model, std::move(m.recipe), std::move(m.weights), std::move(m.params),
          data::Tokenizer::load(tokenizer)};
}

Source read_source(const SampleOptions& o) {
  Source s = o.model.ends_with(".bin") ? read_llama2c(o) : read_checkpoint(o);
  if (s.tokenizer.size() != s.config.known())
    throw Error("the tokenizer knows {} ids, the model {}", s.tokenizer.size(), s.config.known())
        .at(o.tokenizer.empty() ? o.model : o.tokenizer)
        .hint("use the tokenizer that the model was trained with");
  return s;
}

struct Sample {
  std::string text;
  i64 tokens = 0;
  double seconds = 0;
  model::Generated end;
};

/// Writes each piece of text to `live` as it comes; null: nowhere.
Sample write_text(const SampleOptions& o, const Source& s, model::Decoder& d,
                  const std::vector<i32>& prompt, std::FILE* live) {
  Sample r;
  const auto begin = std::chrono::steady_clock::now();
  const auto take = [&](i32 id) {
    if (id == s.tokenizer.end_of_text()) return false;
    std::string_view piece = s.tokenizer.bytes(id);
    // SentencePiece words carry the space before them: a text does not begin with one.
    if (r.tokens++ == 0 && o.prompt.empty() && piece.starts_with(' ')) piece.remove_prefix(1);
    r.text += piece;
    if (live) {
      std::fwrite(piece.data(), 1, piece.size(), live);
      std::fflush(live);
    }
    return true;
  };
  model::Sampling sampling = o.sampling;
  sampling.seed = static_cast<u64>(o.seed);
  r.end = model::generate(d, prompt, o.tokens, sampling, take);
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return r;
}

void print_json(const SampleOptions& o, const Sample& r) {
  nlohmann::ordered_json j;
  j["prompt"] = o.prompt;
  j["text"] = r.text;
  j["tokens"] = r.tokens;
  j["ended"] = r.end.refused ? "end of text" : "tokens";
  j["tokens_with_all_in_sight"] = std::min(r.end.whole, r.tokens);
  j["seed"] = o.seed;
  j["seconds"] = r.seconds;
  // A text may end within a character: what JSON cannot hold becomes U+FFFD.
  fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

/// What is not the text itself goes to stderr.
void print_end(const Source& s, const Sample& r) {
  fmt::print("\n");
  std::fflush(stdout);
  if (r.end.whole < r.tokens)
    note(
        "the model's context is {} tokens: from token {} on, each was chosen from the last {} to "
        "{}",
        s.config.context, r.end.whole + 1, std::max<i64>(1, s.config.context / 2),
        s.config.context);
  if (r.tokens > 0)
    note("{} tokens, {:.0f} a second", r.tokens, static_cast<double>(r.tokens) / r.seconds);
}

/// Rotation angles, as much as they need.
Arena take_state(model::Transformer& t, const kernels::Kernels& k, const Source& s, Queue& q) {
  Arena measured("state"), none("none");
  model::Ctx dry{kernels::dry(), *s.recipe, q, none, none};
  t.take_state(dry, measured, false);
  Arena state("state", measured.peak());
  model::Ctx c{k, *s.recipe, q, none, none};
  t.take_state(c, state, false);
  return state;
}

int run(const SampleOptions& o) {
  Source s = read_source(o);
  const std::vector<i32> prompt = train::prompt_ids(s.tokenizer, o.prompt, s.config.context);
  // Only the plain table computes in FP64.
  const bool plain = o.machine.kernels == "auto" && s.recipe->master == DType::f64;
  const kernels::Kernels& k = kernels::select(plain ? "ref" : o.machine.kernels);
  Queue q(o.machine.workers());
  s.params.refresh_work(q, k);
  model::Transformer t(s.config, s.params);
  const Arena state = take_state(t, k, s, q);
  const auto need = model::DecoderMemory::measured(t, *s.recipe);
  plan::check_room(fmt::format("a context of {} tokens", s.config.context), need.peak());
  auto memory = model::DecoderMemory::backed(need);
  model::Decoder decoder(t, k, *s.recipe, q, memory.cache, memory.scratch);

  if (!o.json) fmt::print("{}", o.prompt);
  std::fflush(stdout);
  const Sample r = write_text(o, s, decoder, prompt, o.json ? nullptr : stdout);
  if (o.json)
    print_json(o, r);
  else
    print_end(s, r);
  return 0;
}

}  // namespace

void add_sample(Commands& c) {
  c.add<SampleOptions>("sample", "write text with a trained model",
                       "lathe sample runs/tiny --prompt \"Once upon a time\"\n"
                       "lathe sample runs/tiny --temperature 0 --tokens 64 --json\n"
                       "lathe sample stories260K.bin --tokenizer tok512.bin\n",
                       declare, run);
}

}  // namespace lathe::cli
