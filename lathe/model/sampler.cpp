#include "lathe/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "lathe/base/rng.h"
#include "lathe/base/view.h"

namespace lathe::model {

namespace {

struct Choice {
  i32 id;
  float logit;
  double weight;
};

bool likelier(const Choice& a, const Choice& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Cuts `choices` down to the k most likely, and those to the first that together have share p.
void cut(std::vector<Choice>& choices, const Sampling& s) {
  const bool few = s.top_k > 0 && s.top_k < static_cast<i64>(choices.size());
  const auto last = few ? choices.begin() + s.top_k : choices.end();
  std::partial_sort(choices.begin(), last, choices.end(), likelier);
  choices.erase(last, choices.end());
  double all = 0, sum = 0;
  for (const Choice& c : choices) all += c.weight;
  std::size_t n = 0;
  while (n < choices.size() && sum < s.top_p * all) sum += choices[n++].weight;
  choices.resize(std::max<std::size_t>(n, 1));
}

}  // namespace

i32 pick(std::span<const float> logits, const Sampling& s, i64 position) {
  std::vector<Choice> choices;
  choices.reserve(logits.size());
  for (const float l : logits)
    choices.push_back({static_cast<i32>(choices.size()), std::isnan(l) ? -INFINITY : l, 0});
  const Choice best = *std::min_element(choices.begin(), choices.end(), likelier);
  if (s.temperature == 0 || !std::isfinite(best.logit)) return best.id;

  for (Choice& c : choices)
    c.weight =
        std::exp((static_cast<double>(c.logit) - static_cast<double>(best.logit)) / s.temperature);
  if (s.top_k > 0 || s.top_p < 1) cut(choices, s);

  double all = 0, sum = 0;
  for (const Choice& c : choices) all += c.weight;
  const double at = all * Rng{s.seed, Draw::sample}.uniform(static_cast<u64>(position));
  for (const Choice& c : choices) {
    sum += c.weight;
    if (at < sum) return c.id;
  }
  return best.id;  // rounding left `at` at the very end
}

}  // namespace lathe::model
