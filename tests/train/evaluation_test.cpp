#include "lathe/train/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/data/tokenizer.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/ctx.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/step.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

/// A model of a finished run, and an evaluation of it by one thread.
struct Fixture {
  Queue q{1};
  LoadedModel m;
  i32 end;
  explicit Fixture(const std::string& run)
      : m(load_model(run)), end(data::Tokenizer::load(m.tokenizer_path).end_of_text()) {}
  Evaluation evaluation() { return Evaluation(m, kernels::select("auto"), q, end); }
};

class Evaluating : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing_support::TemporaryFolder;
    train_quietly(tiny_run(*folder_ / "run", {"train.steps=20", "train.eval_every=0"}));
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string run() { return *folder_ / "run"; }

 private:
  static testing_support::TemporaryFolder* folder_;
};
testing_support::TemporaryFolder* Evaluating::folder_ = nullptr;

std::vector<i32> some_ids(i64 count) {
  std::vector<i32> ids;
  for (i64 i = 0; i < count; ++i) ids.push_back(static_cast<i32>(97 + i * i % 23));
  return ids;
}

TEST_F(Evaluating, PredictsEveryTokenAndTheEndOfEachDocument) {
  Fixture f(run());
  Evaluation e = f.evaluation();
  e.begin_document();
  e.add(some_ids(10), 10);
  e.add(some_ids(100), 150);
  e.begin_document();
  e.add(some_ids(1), 1);
  const Evaluated r = e.finish();
  EXPECT_EQ(r.tokens, 10 + 100 + 1 + 2);
  EXPECT_EQ(r.bytes, 161);
  EXPECT_EQ(r.documents, 2);
  EXPECT_GT(r.loss, 0);
}

TEST_F(Evaluating, KeepsDocumentsApart) {
  // The first document fills two stretches of 40 exactly, so the second begins a stretch alone or
  // behind it.
  const auto loss = [](const std::vector<std::vector<i32>>& documents) {
    Fixture f(run());
    Evaluation e = f.evaluation();
    for (const auto& d : documents) {
      e.begin_document();
      e.add(d, 1);
    }
    return e.finish().loss;
  };
  const std::vector<i32> a = some_ids(79), b = some_ids(15);
  // Sums of some 100 losses below 10 in f64, in another order.
  EXPECT_NEAR(loss({a, b}), loss({a}) + loss({b}), 100 * 1000 * 0x1p-53);
  // Within one stretch too: what stands in front of a document does not change it.
  EXPECT_NEAR(loss({b, b}), 2 * loss({b}), 100 * 1000 * 0x1p-53);
}

TEST_F(Evaluating, AgreesWithTheHeldOutLossOfTraining) {
  // Everything the loader yields for the held-out part, fed again as documents.
  const RunConfig c = tiny_run("unused");
  const data::Loader loader(c.data.shards, data::Loader::Part::held_out, c.model.context,
                            c.model.known(), 1);
  const i64 sequences = loader.sequences(), time = model::padded_time(c.model.context);
  Queue q(1);
  Arenas memory = Arenas::backed(measure(c));
  Trainer t(c, kernels::select("auto"), q, memory);
  Checkpoint(find_checkpoint(run())).read_weights(t.params());
  t.refresh(1);
  const Loss want = t.evaluate(&loader, sequences);

  Fixture f(run());
  Evaluation e = f.evaluation();
  std::vector<i32> ids(time), targets(time), starts(time), row;
  bool first = true;
  for (i64 s = 0; s < sequences; ++s) {
    loader.fill(s, 1, time, ids.data(), targets.data(), starts.data());
    for (i64 i = 0; i < c.model.context; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (ids[at] == f.end) {
        e.begin_document();
        first = false;
      }
      ASSERT_FALSE(first);
      if (targets[at] != f.end && targets[at] >= 0) e.add({targets[at]}, 1);
    }
  }
  const Evaluated got = e.finish();
  // The last sequence may end inside a document: its end is then one more token, of a loss between
  // 0 and 20 nats. Sums of some hundred losses in f64 differ by far less than 1e-9.
  const i64 more = got.tokens - want.tokens;
  EXPECT_TRUE(more == 0 || more == 1) << more;
  EXPECT_GE(got.loss, want.sum - 1e-9);
  EXPECT_LE(got.loss, want.sum + 1e-9 + 20.0 * static_cast<double>(more));
}

}  // namespace
}  // namespace lathe::train
