#pragma once
// A prompt continued.

#include <functional>
#include <span>

#include "lathe/base/view.h"
#include "lathe/model/decode.h"
#include "lathe/model/sampler.h"

namespace lathe::model {

/// Why a text came to its end.
enum class Ended : u8 { count, refused, full };

/// Feeds `prompt`, at least one token and at most what the decoder's context still holds, then
/// picks up to `count` tokens. Each is handed to `take`, which returns whether to go on. Ends with
/// `full` where the context holds no more.
Ended generate(Decoder& d, std::span<const i32> prompt, i64 count, const Sampling& s,
               const std::function<bool(i32)>& take);

}  // namespace lathe::model
