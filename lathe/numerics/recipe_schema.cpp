#include "lathe/numerics/recipe_schema.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/config_visit.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_text.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {

namespace {

template <std::size_t N>
std::vector<std::string> strings(const std::array<std::string_view, N>& names) {
  return {names.begin(), names.end()};
}

std::vector<std::string> encoding_names() {
  std::vector<std::string> all;
  for (const NamedEncoding& n : named_encodings()) all.emplace_back(n.name);
  return all;
}

}  // namespace

void visit(Reader& v, OperandText& t) {
  v("format", t.format, "element format, or the usual name of a block format",
    one_of(encoding_names()));
  v("scaling", t.scaling, "what shares a scale", one_of(strings(kScalingNames)));
  v("rounding", t.rounding, "of elements", one_of(strings(kTieNames)));
  v("mx_rule", t.mx_rule, "how MX scales are chosen", one_of(strings(kMxRuleNames)));
  v("hadamard", t.hadamard, "order of the random Hadamard transform along the sum");
  v("square", t.square, "blocks as wide as they are long");
  v("power_of_two", t.power_of_two, "scales are rounded to a power of two");
  v("head_room", t.head_room, "elements are multiplied by it, results divided");
}
void visit(Reader& v, ProductText& t) {
  for (OperandText* o : {&t.a, &t.b}) {
    if (o->is_word)
      v(o->key, o->format, "the operand's format alone", one_of(encoding_names()));
    else
      v.section(o->key, *o);
  }
}
void visit(Reader& v, ProductsText& t) {
  for (ProductText* p : {&t.forward, &t.grad_x, &t.grad_w}) v.section(p->key, *p);
}
void visit(Reader& v, AttentionText& t) {
  v.section("attention", t.scores);
  v.section("attention", t.values);
}
void visit(Reader& v, OverrideText& t) {
  Override& o = t.place;
  v("match", o.match, "parameters by name, with *; head: what makes the logits");
  v("first_blocks", o.first_blocks, "only in the first blocks", at_least(1));
  v("last_blocks", o.last_blocks, "only in the last blocks", at_least(1));
  v("last_share", o.last_share, "only in the last share of the blocks", between(0.001, 1));
  v("from", o.from, "share of the run at which it begins", between(0, 1));
  v("until", o.until, "share of the run at which it ends", between(0, 1));
  v("remove", t.remove, "leaves out the base's override of that name");
  v("recipe", t.recipe, "named recipe whose linear products it takes", one_of(recipe_names()));
  visit(v, t.products);
}
void visit(Reader& v, OverridesText& t) {
  for (OverrideText& o : t.all) v.section(o.place.name.c_str(), o);
}
void visit(Reader& v, DelayedOptions& d) {
  v("history", d.history, "steps that have a say", between(1, 1 << 20));
  v("margin", d.margin, "binades of head-room", between(0, 64));
  v("most_recent", d.most_recent, "the last amax instead of the largest");
}
void visit(Reader& v, LossScale& s) {
  v("initial", s.initial, "a power of two", between(1, 0x1p64));
  v("window", s.window, "steps without overflow after which it doubles; 0: never", at_least(0));
}
void visit(Reader& v, AdaptiveText& t) {
  Adaptive& a = t.numbers;
  v("levels", t.levels,
    "named recipes to choose from, lowest precision first, with commas between");
  v("every", a.every, "steps between measurements", at_least(1));
  v("snr_db", a.snr_db, "least signal to noise ratio of an operand", between(0, 200));
  v("underflow", a.underflow, "largest share of elements that become zero", between(0, 1));
  v("saturated", a.saturated, "largest share of elements that are cut off", between(0, 1));
  v("margin_db", a.margin_db, "better by this, or it does not go lower", between(0, 100));
  v("patience", a.patience, "measurements in a row before it goes lower", at_least(1));
}
void visit(Reader& v, RecipeText& t) {
  v("name", t.plain.name, "what it is called");
  v("about", t.plain.about, "one line for people");
  v("source", t.plain.source, "who published it");
  v("base", t.base, "named recipe to start from", one_of(recipe_names()));
  v("activation", t.activation, "type of what lies between products",
    one_of({"bf16", "fp32", "fp64"}));
  v("residual", t.residual, "type of the residual stream", one_of({"bf16", "fp32", "fp64"}));
  visit(v, t.linear);
  visit(v, t.attention);
  v.section("delayed", t.plain.delayed);
  v.section("loss_scale", t.plain.loss_scale);
  v.section("adaptive", t.adaptive);
  v.section("override", t.overrides);
}

}  // namespace lathe::numerics
