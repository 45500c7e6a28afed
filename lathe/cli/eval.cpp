#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/log.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/cli/command.h"
#include "lathe/data/text.h"
#include "lathe/data/tokenizer.h"
#include "lathe/kernels/kernels.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/evaluation.h"

namespace lathe::cli {
namespace {

struct EvalOptions {
  std::string model;
  std::vector<std::string> texts;
  MachineOptions machine;
  bool use_previous = false, json = false;
};

void declare(CLI::App& a, EvalOptions& o) {
  a.add_option("model", o.model, "run folder, or the folder of one checkpoint")->required();
  a.add_option("texts", o.texts, "text files, folders, .jsonl; also packed as .gz or .zst")
      ->required();
  declare_machine(a, o.machine);
  a.add_flag("--use-previous", o.use_previous, "the checkpoint before the latest");
  a.add_flag("--json", o.json, "print one JSON object");
}

/// Feeds every document of the texts to the evaluation.
train::Evaluated evaluate(const EvalOptions& o, const data::Tokenizer& tokenizer,
                          train::Evaluation& evaluation) {
  data::TextReader reader(data::find_files(o.texts, ""), data::BadUtf8::replace);
  data::Piece piece;
  while (reader.next(piece)) {
    if (piece.first) evaluation.begin_document();
    evaluation.add(tokenizer.encode(piece.text), static_cast<i64>(piece.text.size()));
  }
  if (!reader.report().bad_places.empty())
    warn("{} places are not UTF-8 and count as U+FFFD, the first at {}",
         reader.report().bad_sequences, reader.report().bad_places.front());
  const train::Evaluated e = evaluation.finish();
  if (e.documents == 0)
    throw Error("there is no text in {}", o.texts.front()).hint("name files that hold some");
  return e;
}

void print(const EvalOptions& o, const train::LoadedModel& m, const train::Evaluated& e) {
  const double loss = e.loss / static_cast<double>(e.tokens);
  const double bits = e.loss / std::log(2.0) / static_cast<double>(e.bytes);
  if (!o.json) {
    fmt::print(
        "loss            {:.4f} nats a token\nperplexity      {:.2f}\nbits per byte   {:.4f}\n"
        "tokens          {}\nbytes           {}\ndocuments       {}\ncheckpoint      {}\n",
        loss, std::exp(loss), bits, e.tokens, e.bytes, e.documents, m.folder);
    return;
  }
  nlohmann::ordered_json j;
  j["loss"] = loss;
  j["perplexity"] = std::exp(loss);
  j["bits_per_byte"] = bits;
  j["tokens"] = e.tokens;
  j["bytes"] = e.bytes;
  j["documents"] = e.documents;
  j["step"] = m.info.step;
  j["checkpoint"] = m.folder;
  fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int run(const EvalOptions& o) {
  train::LoadedModel m =
      train::load_model(o.model, o.use_previous ? train::Pick::previous : train::Pick::latest);
  if (m.tokenizer_path.empty())
    throw Error("the checkpoint has no tokenizer, so it cannot read text").at(m.folder);
  const data::Tokenizer tokenizer = data::Tokenizer::load(m.tokenizer_path);
  if (tokenizer.size() > m.info.model.vocab)
    throw Error("the tokenizer has {} ids, the model {}", tokenizer.size(), m.info.model.vocab)
        .at(m.tokenizer_path);
  const kernels::Kernels& k = kernels::select(o.machine.kernels);
  Queue q(o.machine.workers());
  train::Evaluation evaluation(m, k, q, tokenizer.end_of_text());
  print(o, m, evaluate(o, tokenizer, evaluation));
  return 0;
}

}  // namespace

void add_eval(Commands& c) {
  c.add<EvalOptions>(
      "eval", "measure how well a trained model predicts texts",
      "lathe eval runs/tiny book.txt\n"
      "lathe eval runs/tiny/checkpoints/step-00000100 texts/ --json\n"
      "\nDocuments are read in stretches of the model's context, as in training: every "
      "token, and\nthe end of each document, is predicted once, from those of its "
      "document that stand\nbefore it in the stretch.\n",
      declare, run);
}

}  // namespace lathe::cli
