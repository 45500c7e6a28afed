#include "lathe/train/sampling.h"

#include <span>
#include <string>
#include <vector>

#include "lathe/model/decode.h"
#include "lathe/model/sampler.h"

namespace lathe::train {

std::string continue_prompt(const RunConfig& c, const model::Transformer& t,
                            const kernels::Kernels& k, const numerics::Recipe& recipe, Queue& q,
                            const data::Tokenizer& tokenizer) {
  std::vector<i32> prompt = tokenizer.encode(c.train.sample_prompt);
  if (prompt.empty()) prompt.push_back(tokenizer.end_of_text());

  model::Decoder decoder(t, k, recipe, q);
  const model::Sampling sampling{.seed = static_cast<u64>(c.run.seed)};
  std::span<const float> logits;
  for (const i32 id : prompt)
    if (!decoder.full()) logits = decoder.next(id);

  std::vector<i32> text;
  while (static_cast<i64>(text.size()) < c.train.sample_tokens) {
    const i32 id = model::pick(logits, sampling, decoder.position());
    if (id == tokenizer.end_of_text()) break;
    text.push_back(id);
    if (decoder.full()) break;
    logits = decoder.next(id);
  }
  return tokenizer.decode(text);
}

}  // namespace lathe::train
