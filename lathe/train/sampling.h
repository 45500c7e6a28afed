#pragma once

#include <string>

#include "lathe/base/queue.h"
#include "lathe/data/tokenizer.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/train/config.h"

namespace lathe::train {

/// What the model writes after train.sample_prompt: at most train.sample_tokens tokens, fewer where
/// the text ends or the context is full. Well-formed UTF-8. The same weights give the same text.
std::string continue_prompt(const RunConfig& c, const model::Transformer& t,
                            const kernels::Kernels& k, const numerics::Recipe& recipe, Queue& q,
                            const data::Tokenizer& tokenizer);

}  // namespace lathe::train
