#pragma once

#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/data/tokenizer.h"
#include "lathe/model/decode.h"
#include "lathe/train/config.h"

namespace lathe::train {

/// The ids of a document that begins with the prompt. Throws Error where they are more than
/// `context`.
std::vector<i32> prompt_ids(const data::Tokenizer& tokenizer, const std::string& prompt,
                            i64 context);

/// What the model writes after train.sample_prompt: at most train.sample_tokens tokens, fewer where
/// the text ends. Well-formed UTF-8. The same weights give the same text.
std::string continue_prompt(const RunConfig& c, model::Decoder& decoder,
                            const data::Tokenizer& tokenizer);

}  // namespace lathe::train
