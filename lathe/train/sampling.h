#pragma once

#include <string>

#include "lathe/data/tokenizer.h"
#include "lathe/model/decode.h"
#include "lathe/train/config.h"

namespace lathe::train {

/// What the model writes after train.sample_prompt: at most train.sample_tokens tokens, fewer where
/// the text ends or the context is full. Well-formed UTF-8. The same weights give the same text.
std::string continue_prompt(const RunConfig& c, model::Decoder& decoder,
                            const data::Tokenizer& tokenizer);

}  // namespace lathe::train
