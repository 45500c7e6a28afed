#include "lathe/model/generate.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/model/decode.h"
#include "lathe/model/sampler.h"

namespace lathe::model {

namespace {

std::span<const float> feed(Decoder& d, std::span<const i32> text) {
  std::span<const float> logits;
  for (const i32 id : text) logits = d.next(id);
  return logits;
}

/// The logits after a text of which the decoder knows all but the last token.
std::span<const float> go_on(Decoder& d, std::span<const i32> text) {
  if (!d.full()) return d.next(text.back());
  d.reset();
  const auto half = static_cast<std::size_t>(std::max<i64>(1, d.context() / 2));
  return feed(d, text.last(half));
}

}  // namespace

Generated generate(Decoder& d, std::span<const i32> prompt, i64 count, const Sampling& s,
                   const std::function<bool(i32)>& take) {
  CHECK(!prompt.empty(), "a text begins with a token");
  d.reset();
  std::vector<i32> text(prompt.begin(), prompt.end());
  std::span<const float> logits = feed(d, text);
  Generated g;
  for (i64 n = 0; n < count; ++n) {
    const auto length = static_cast<i64>(text.size());
    const i32 id = pick(logits, s, length);
    if (d.position() == length) g.whole = n + 1;
    g.refused = !take(id);
    if (g.refused || n + 1 == count) break;
    text.push_back(id);
    logits = go_on(d, text);
  }
  return g;
}

}  // namespace lathe::model
