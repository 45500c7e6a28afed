#pragma once
// The loss of a trained model over documents that are not in shards.

#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/transformer.h"
#include "lathe/train/checkpoint.h"

namespace lathe::train {

struct Evaluated {
  double loss = 0;  // nats, summed over tokens
  i64 tokens = 0, bytes = 0, documents = 0;
};

/// Reads documents one after another in stretches of the model's context, as training does: every
/// token of a document, and the end-of-text id behind it, is predicted once, from an end-of-text id
/// in front of the document and the tokens of the document that lie in the same stretch.
class Evaluation {
 public:
  /// Refreshes the copies of the parameters that products read. All must outlive it.
  Evaluation(LoadedModel& m, const kernels::Kernels& k, Queue& q, i32 end_of_text);

  void begin_document();
  /// More ids of the document begun last, standing for `bytes` bytes of text.
  void add(const std::vector<i32>& ids, i64 bytes);
  /// The loss over all documents. Throws Error when it is not finite.
  Evaluated finish();

 private:
  void end_document();
  void push(i32 input, i32 target);
  void flush();

  const i64 context_;
  const i32 end_of_text_;
  model::Transformer transformer_;
  Arena state_, kept_, scratch_;
  model::Ctx ctx_;
  std::vector<i32> ids_, targets_, doc_start_;  // (1, T)
  Tensor loss_sum_;                             // (1, 1) f64
  i64 used_ = 0, start_ = 0;                    // tokens of the stretch; where its document starts
  i32 last_ = 0;                                // what the next token is predicted from
  bool open_ = false;                           // a document is being read
  Evaluated sum_;
};

}  // namespace lathe::train
