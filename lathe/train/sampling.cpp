#include "lathe/train/sampling.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/data/tokenizer.h"
#include "lathe/data/utf8.h"
#include "lathe/model/decode.h"
#include "lathe/model/generate.h"
#include "lathe/train/config.h"

namespace lathe::train {

std::string continue_prompt(const RunConfig& c, model::Decoder& decoder,
                            const data::Tokenizer& tokenizer) {
  std::vector<i32> prompt = tokenizer.encode(c.train.sample_prompt);
  if (prompt.empty()) prompt.push_back(tokenizer.end_of_text());
  prompt.resize(std::min(prompt.size(), static_cast<std::size_t>(c.model.context)));

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
