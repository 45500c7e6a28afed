#pragma once
// A prompt continued.

#include <functional>
#include <span>

#include "lathe/base/view.h"
#include "lathe/model/decode.h"
#include "lathe/model/sampler.h"

namespace lathe::model {

struct Generated {
  bool refused = false;  // `take` wanted no more
  i64 whole = 0;         // tokens picked with all of the text before them in sight
};

/// Feeds `prompt`, 1 to d.context() tokens, to a decoder that begins anew with it, then picks up to
/// `count` tokens. Each is handed to `take`, which returns whether to go on. Where the context is
/// full the decoder begins anew with the last half of it, as training shows a model a text from its
/// middle: from then on tokens are picked with half a context to a whole one in sight.
Generated generate(Decoder& d, std::span<const i32> prompt, i64 count, const Sampling& s,
                   const std::function<bool(i32)>& take);

}  // namespace lathe::model
