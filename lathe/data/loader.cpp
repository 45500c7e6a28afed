#include "lathe/data/loader.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/data/epoch_order.h"
#include "lathe/data/shards_index.h"
#include "lathe/data/tokens.h"

namespace lathe::data {

namespace {

constexpr i32 kNoTarget = -1;

i64 count_sequences(i64 tokens, i64 context) { return (tokens - 1) / context; }

[[noreturn]] void too_short(const std::string& folder, Loader::Part part, i64 tokens, i64 context) {
  const char* name = part == Loader::Part::train ? "training" : "held-out";
  if (tokens == 0)
    throw Error("there is no {} text", name)
        .at(folder)
        .hint("lathe data PATH… --out {} --held-out 0.01 --force", folder);
  throw Error("a context of {} needs {} tokens, and the {} text has {}", context, context + 1, name,
              tokens)
      .at(folder)
      .hint("set model.context to {} or less, or make shards of more text{}", tokens - 1,
            part == Loader::Part::train ? "" : " or with a larger --held-out");
}

}  // namespace

struct Loader::Impl {
  std::vector<TokensFile> files;
  std::vector<i64> begins;  // place of each file's first token in the part; last: all tokens
  i64 context;
  Part part;
  i32 end_of_text;
  EpochOrder order;

  /// `count` tokens of the part from `at` on.
  void read(i64 at, i64 count, i32* out) const {
    auto f = static_cast<std::size_t>(std::ranges::upper_bound(begins, at) - begins.begin() - 1);
    for (; count > 0; ++f) {
      const i64 n = std::min(count, begins[f + 1] - at);
      files[f].read(at - begins[f], n, out);
      at += n;
      out += n;
      count -= n;
    }
  }

  /// One row of `time` entries from `tokens`, context + 1 of them.
  void fill_row(const std::vector<i32>& tokens, i64 time, i32* ids, i32* targets,
                i32* doc_start) const {
    i32 start = 0;
    for (i64 t = 0; t < context; ++t) {
      ids[t] = tokens[static_cast<std::size_t>(t)];
      targets[t] = tokens[static_cast<std::size_t>(t) + 1];
      if (ids[t] == end_of_text) start = static_cast<i32>(t);
      doc_start[t] = start;
    }
    for (i64 t = context; t < time; ++t) {
      ids[t] = 0;
      targets[t] = kNoTarget;
      doc_start[t] = static_cast<i32>(t);
    }
  }
};

Loader::Loader(const std::string& folder, Part part, i64 context, i64 vocab, u64 seed) {
  const ShardsIndex index = read_index(folder);
  const ShardsIndex::Part& p = part == Part::train ? index.train : index.held_out;
  if (p.tokens <= context) too_short(folder, part, p.tokens, context);
  std::vector<TokensFile> files;
  std::vector<i64> begins{0};
  for (const TokensEntry& e : p.files) {
    TokensFile f(folder + "/" + e.file);
    if (f.tokens() != e.tokens || f.kind().tokenizer_hash != index.kind.tokenizer_hash)
      throw Error("token file is not the one that the folder's index names")
          .at(f.path())
          .hint("make the shards again: lathe data PATH… --out {} --force", folder);
    f.check(vocab);
    begins.push_back(begins.back() + f.tokens());
    files.push_back(std::move(f));
  }
  impl_.reset(new Impl{std::move(files), std::move(begins), context, part, index.kind.end_of_text,
                       EpochOrder(count_sequences(p.tokens, context), seed)});
}

Loader::~Loader() = default;

i64 Loader::sequences() const { return count_sequences(impl_->begins.back(), impl_->context); }

i64 Loader::fill(i64 first, i64 count, i64 time, i32* ids, i32* targets, i32* doc_start) const {
  CHECK(first >= 0 && time >= impl_->context, "sequence {}, {} entries for a context of {}", first,
        time, impl_->context);
  std::vector<i32> tokens(static_cast<std::size_t>(impl_->context) + 1);
  for (i64 row = 0; row < count; ++row) {
    const i64 place = first + row;
    const i64 sequence = impl_->part == Part::train ? impl_->order.at(place) : place % sequences();
    impl_->read(sequence * impl_->context, impl_->context + 1, tokens.data());
    const i64 at = row * time;
    impl_->fill_row(tokens, time, ids + at, targets + at, doc_start + at);
  }
  return count * impl_->context;
}

i32 Loader::end_of_text() const { return impl_->end_of_text; }

}  // namespace lathe::data
