#include "lathe/model/generate.h"

#include <functional>
#include <span>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/model/decode.h"
#include "lathe/model/sampler.h"

namespace lathe::model {

Ended generate(Decoder& d, std::span<const i32> prompt, i64 count, const Sampling& s,
               const std::function<bool(i32)>& take) {
  CHECK(!prompt.empty(), "a text begins with a token");
  std::span<const float> logits;
  for (const i32 id : prompt) logits = d.next(id);
  for (i64 n = 0; n < count; ++n) {
    const i32 id = pick(logits, s, d.position());
    if (!take(id)) return Ended::refused;
    if (n + 1 == count) break;
    if (d.full()) return Ended::full;
    logits = d.next(id);
  }
  return Ended::count;
}

}  // namespace lathe::model
