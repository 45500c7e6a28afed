#include "lathe/train/sampling.h"

#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/data/tokenizer.h"
#include "lathe/data/utf8.h"
#include "lathe/model/decode.h"
#include "lathe/model/generate.h"
#include "lathe/train/config.h"

namespace lathe::train {

std::vector<i32> prompt_ids(const data::Tokenizer& tokenizer, const std::string& prompt,
                            i64 context) {
  std::vector<i32> ids{tokenizer.end_of_text()};
  const std::vector<i32> words = tokenizer.encode(prompt);
  ids.insert(ids.end(), words.begin(), words.end());
  if (static_cast<i64>(ids.size()) > context)
    throw Error("the prompt has {} tokens, the model's context {}", ids.size() - 1, context)
        .hint("use a prompt of at most {} tokens", context - 1);
  return ids;
}

std::string continue_prompt(const RunConfig& c, model::Decoder& decoder,
                            const data::Tokenizer& tokenizer) {
  const std::vector<i32> prompt = prompt_ids(tokenizer, c.train.sample_prompt, c.model.context);
  std::vector<i32> text;
  model::generate(decoder, prompt, c.train.sample_tokens, {.seed = static_cast<u64>(c.run.seed)},
                  [&](i32 id) {
                    if (id == tokenizer.end_of_text()) return false;
                    text.push_back(id);
                    return true;
                  });
  std::string whole;
  std::vector<i64> places;
  data::append_repaired(whole, tokenizer.decode(text), places);
  return whole;
}

}  // namespace lathe::train
