#pragma once
// How a product is cut up, whatever multiplies. Both operands are packed into the queue's shared
// scratch as strips: kLanes vectors side by side, in groups of 32 of the summed dimension, each
// group laid out as the back end's inner loop reads it. Then c is computed in blocks, each by one
// worker, which holds the block's sums in its own scratch while it walks down the summed dimension.
//
// What does not fit into the scratch is taken in slabs of c's columns and rows, and in stretches of
// the summed dimension, between which sums wait in c itself, or in f32 beside it. None of this
// changes a bit: a sum is one chain (gemm.h) from its first element to its last.
//
// With scales beside the elements, a stretch holds whole chunks, and a block takes a chunk in one
// go: its sums, from zero, are scaled and added to those of the chunks before. Where there is but
// one chunk, sums go on as if there were no scales, and are scaled and added to c at the end.
//
// For at most kFewRows rows (a token being decoded) the second operand is not worth a trip through
// memory: each block packs its own part just before it is used.
//
// A back end P has:
//   Element                          float or bf16: what the operands hold
//   kLanes, kGroupBytes              vectors of a strip, bytes of one packed group of a strip
//   kRows, kCols                     size of a block of c; multiples of kLanes
//   kDepth                           elements of the sum a block takes in one go; multiple of 32
//   kPanel                           vectors of b that are used together
//   pack_a, pack_b(out, from, stride, along)   pack one group of a strip: kLanes x 32 elements
//   block(block, a, b, scratch)      computes one block

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/gemm_scales.h"
#include "lathe/kernels/gemm_window.h"

namespace lathe::kernels {

inline constexpr i64 kFewRows = 8;
inline constexpr i64 kGroup = 32;      // of the summed dimension, as gemm.h orders bf16 sums
inline constexpr i64 kLongest = 4096;  // elements of a sum that always fit into the scratch

LATHE_INLINE i64 least(i64 a, i64 b) { return a < b ? a : b; }
LATHE_INLINE i64 most(i64 a, i64 b) { return a > b ? a : b; }
LATHE_INLINE i64 pieces_of(i64 size, i64 piece) { return (size + piece - 1) / piece; }
LATHE_INLINE i64 round_up(i64 size, i64 to) { return pieces_of(size, to) * to; }

/// One block of c and what goes into it.
struct Block {
  const std::byte* a;  // first strip of the block's rows
  const std::byte* b;  // first strip of its columns; null: to be packed from the operand
  i64 strip_bytes;     // from one strip to the next
  i64 rows, cols, depth;
  i64 first_row, first_col, first_k;  // place in the operands
  i64 chunk;  // elements after which sums are scaled; 0: not before the end, if at all
  Window window;
};

/// One pass over the tiles of a block: all its sums, a step further.
struct Pass {
  i64 begin, depth;
  bool first, last;
  bool chunk;   // it takes one: its sums are scaled and added to what is in the tiles
  bool scales;  // now or at the end

  LATHE_INLINE Pass(const Block& k, i64 from, i64 step)
      : begin(from),
        depth(least(step, k.depth - from)),
        first(from == 0),
        last(from + depth == k.depth),
        chunk(k.chunk > 0),
        scales(chunk || (last && k.window.scaled_at_end)) {}
};

/// Packs one group of a strip: vectors [outer, outer + kLanes), elements [k, k + 32) of x; what
/// lies outside the matrix is zero.
template <class P, bool kIsA>
LATHE_INLINE void pack_group(std::byte* out, const Operand& x, i64 outer, i64 k) {
  using T = typename P::Element;
  const bool by_cols = x.along == Along::cols;
  const i64 vectors = least(P::kLanes, x.outer() - outer), depth = least(kGroup, x.summed() - k);
  const T* from = by_cols ? x.data.row<T>(outer) + k : x.data.row<T>(k) + outer;
  if (vectors == P::kLanes && depth == kGroup) {
    if (kIsA)
      P::pack_a(out, from, x.data.stride, x.along);
    else
      P::pack_b(out, from, x.data.stride, x.along);
    return;
  }
  alignas(64) T edge[P::kLanes * kGroup] = {};
  for (i64 v = 0; v < vectors; ++v)
    for (i64 i = 0; i < depth; ++i)
      edge[v * kGroup + i] = by_cols ? from[v * x.data.stride + i] : from[i * x.data.stride + v];
  if (kIsA)
    P::pack_a(out, edge, kGroup, Along::cols);
  else
    P::pack_b(out, edge, kGroup, Along::cols);
}

/// Packs `strips` strips from vector `outer` on, elements [k, k + depth), into `out`, in the order
/// in which x lies in memory.
template <class P, bool kIsA>
LATHE_INLINE void pack_strips(std::byte* out, i64 strip_bytes, i64 strips, const Operand& x,
                              i64 outer, i64 k, i64 depth) {
  const i64 groups = pieces_of(depth, kGroup), count = strips * groups;
  for (i64 i = 0; i < count; ++i) {
    const i64 strip = x.along == Along::cols ? i / groups : i % strips;
    const i64 group = x.along == Along::cols ? i % groups : i / strips;
    pack_group<P, kIsA>(out + strip * strip_bytes + group * P::kGroupBytes, x,
                        outer + strip * P::kLanes, k + group * kGroup);
  }
}

/// The part of a product that is in the scratch at one time.
struct Slab {
  i64 row, rows, col, cols, k, depth;
  std::byte *a, *b;
  i64 strip_bytes;
};

/// How scales beside the elements cut the sums of a product.
struct Chunks {
  i64 depth = 0;       // of a chunk; 0: there are no scales, or the whole sum is one chunk
  bool whole = false;  // it is

  LATHE_INLINE Chunks(const Operand& a, const Operand& b) {
    const i64 chunk = chunk_of_scales(a, b);
    whole = chunk == a.summed();
    if (!whole) depth = chunk;
  }
  /// The most elements, of at most `most`, that are whole chunks.
  LATHE_INLINE i64 fit(i64 most) const { return depth > 0 ? most / depth * depth : most; }
};

/// Sizes of slabs and stretches for a product of M x N x K.
struct Cut {
  i64 rows, cols, depth, partial_bytes;
};

/// How packing one operand of a slab is cut into pieces: long the way the operand lies in memory.
struct PackCut {
  i64 vectors, depth;  // of a piece
  i64 down, count;     // pieces along the summed dimension; pieces in all

  LATHE_INLINE PackCut(const Operand& x, i64 slab_vectors, i64 slab_depth)
      : vectors(x.along == Along::cols ? 64 : 256),
        depth(x.along == Along::cols ? 512 : 128),
        down(pieces_of(slab_depth, depth)),
        count(pieces_of(slab_vectors, vectors) * down) {}
};

/// Packs piece `p` of an operand's part of a slab: `slab_vectors` vectors from `outer` on.
template <class P, bool kIsA>
LATHE_INLINE void pack_piece(const Slab& s, const Operand& x, const PackCut& t, i64 p,
                             std::byte* out, i64 outer, i64 slab_vectors) {
  const i64 first = p / t.down * t.vectors, k = p % t.down * t.depth;
  const i64 strips = pieces_of(least(t.vectors, slab_vectors - first), P::kLanes);
  pack_strips<P, kIsA>(out + first / P::kLanes * s.strip_bytes + k / kGroup * P::kGroupBytes,
                       s.strip_bytes, strips, x, outer + first, s.k + k,
                       least(t.depth, s.depth - k));
}

/// Packs what a slab needs of a, and of b unless `b_is_there`.
template <class P>
void pack_slab(Queue& q, const Slab& s, const Operand& a, const Operand& b, bool b_is_there) {
  const PackCut of_a(a, s.rows, s.depth), of_b(b, s.cols, s.depth);
  for_pieces(q, of_a.count + (b_is_there ? 0 : of_b.count), [&](i64 piece, int /*worker*/) {
    if (piece < of_a.count)
      pack_piece<P, true>(s, a, of_a, piece, s.a, s.row, s.rows);
    else
      pack_piece<P, false>(s, b, of_b, piece - of_a.count, s.b, s.col, s.cols);
  });
}

/// Computes the window w of c from a packed slab.
template <class P>
void multiply_slab(Queue& q, const Slab& s, const Operand& a, const Operand& b, i64 chunk,
                   const Window& w, i64 block_cols) {
  const i64 across = pieces_of(s.cols, block_cols);
  for_pieces(q, pieces_of(s.rows, P::kRows) * across, [&](i64 piece, int worker) {
    const i64 row = piece / across * P::kRows, col = piece % across * block_cols;
    Block k;
    k.a = s.a + row / P::kLanes * s.strip_bytes;
    k.b = s.b ? s.b + col / P::kLanes * s.strip_bytes : nullptr;
    k.strip_bytes = s.strip_bytes;
    k.rows = least(P::kRows, s.rows - row);
    k.cols = least(block_cols, s.cols - col);
    k.depth = s.depth;
    k.first_row = s.row + row;
    k.first_col = s.col + col;
    k.first_k = s.k;
    k.chunk = chunk;
    k.window = w.part(row, k.rows, col, k.cols);
    P::block(k, a, b, q.scratch(worker));
  });
}

/// Bytes of the scratch that one vector of `depth` elements takes.
template <class P>
LATHE_INLINE i64 vector_bytes(i64 depth) {
  return pieces_of(depth, kGroup) * P::kGroupBytes / P::kLanes;
}

/// Elements of a sum that are packed at once. All of them, where there is room for all vectors; or
/// if sums may wait in c, as many as leave that room, as long as that is not too few; else
/// kLongest, which leaves room for 1024 vectors of the widest packing on either side.
template <class P>
LATHE_INLINE i64 stretch_depth(const Window& w, i64 depth, const Chunks& chunks, i64 room) {
  const i64 vectors = round_up(w.to.rows, P::kLanes) + round_up(w.to.cols, P::kLanes);
  const i64 fitting = room / vectors / vector_bytes<P>(kGroup) * kGroup;
  if (fitting >= depth) return depth;
  const i64 whole = chunks.fit(fitting);
  if (!w.can_wait() || whole < 1024) return least(depth, chunks.fit(kLongest));
  return round_up(pieces_of(depth, pieces_of(depth, whole)), most(kGroup, chunks.depth));
}

/// How much of the product is taken at once: all of it, if its operands fit.
template <class P>
LATHE_INLINE Cut cut(const Window& w, i64 depth, const Chunks& chunks) {
  Cut t{};
  i64 room = Queue::kSharedScratch;
  t.depth = stretch_depth<P>(w, depth, chunks, room);
  const bool beside = t.depth < depth && !w.can_wait();
  if (beside) room -= t.partial_bytes = i64{8} << 20;
  const i64 bytes = vector_bytes<P>(t.depth), most_vectors = room / bytes;
  t.cols = round_up(w.to.cols, P::kLanes);
  t.rows = round_up(w.to.rows, P::kLanes);
  if (t.rows + t.cols > most_vectors) {
    t.cols = least(t.cols, most(1, most_vectors / 2 / P::kCols) * P::kCols);
    t.rows = least(t.rows, most(1, (most_vectors - t.cols) / P::kRows) * P::kRows);
  }
  if (beside) t.rows = least(t.rows, most(1, t.partial_bytes / 4 / t.cols / P::kRows) * P::kRows);
  return t;
}

/// c (M, N) = [c +] a b^T [+ bias], as gemm.h says, M > kFewRows.
template <class P>
void blocked_product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
                     const Epilogue& e) {
  const i64 depth_of_all = a.summed();
  const Chunks chunks(a, b);
  const Window whole = window(c, e, chunks.whole);
  const Cut t = cut<P>(whole, depth_of_all, chunks);
  Slab s{};
  s.strip_bytes = pieces_of(t.depth, kGroup) * P::kGroupBytes;
  s.b = q.shared() + t.partial_bytes;
  s.a = s.b + t.cols / P::kLanes * s.strip_bytes;
  for (s.col = 0; s.col < c.cols; s.col += t.cols) {
    s.cols = least(t.cols, c.cols - s.col);
    bool b_is_there = false;
    for (s.row = 0; s.row < c.rows; s.row += t.rows) {
      s.rows = least(t.rows, c.rows - s.row);
      const Window part = whole.part(s.row, s.rows, s.col, s.cols);
      for (s.k = 0; s.k < depth_of_all; s.k += t.depth) {
        s.depth = least(t.depth, depth_of_all - s.k);
        pack_slab<P>(q, s, a, b, b_is_there);
        b_is_there = t.depth >= depth_of_all;
        const bool first = s.k == 0, last = s.k + s.depth == depth_of_all;
        multiply_slab<P>(q, s, a, b, chunks.depth, part.stretch(first, last, q.shared()), P::kCols);
      }
    }
  }
}

/// The same for M <= kFewRows.
template <class P>
void few_rows_product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
                      const Epilogue& e) {
  constexpr i64 kHalf = Queue::kSharedScratch / 2;
  const i64 depth_of_all = a.summed();
  const Chunks chunks(a, b);
  const Window whole = window(c, e, chunks.whole);
  // Sums of a very wide c cannot all wait beside it: then its columns go in parts.
  const i64 most_cols = whole.can_wait() ? c.cols : kHalf / 4 / c.rows / P::kPanel * P::kPanel;
  const i64 partial_bytes =
      whole.can_wait() ? 0 : round_up(c.rows * least(c.cols, most_cols) * 4, 4096);
  const i64 most_depth = chunks.fit(kHalf / P::kGroupBytes * kGroup / 2);
  Slab s{};
  s.a = q.shared() + partial_bytes;
  s.rows = c.rows;
  for (s.col = 0; s.col < c.cols; s.col += most_cols) {
    s.cols = least(most_cols, c.cols - s.col);
    const Window part = whole.part(0, s.rows, s.col, s.cols);
    for (s.k = 0; s.k < depth_of_all; s.k += most_depth) {
      s.depth = least(most_depth, depth_of_all - s.k);
      s.strip_bytes = pieces_of(s.depth, kGroup) * P::kGroupBytes;
      pack_slab<P>(q, s, a, b, true);
      const bool first = s.k == 0, last = s.k + s.depth == depth_of_all;
      multiply_slab<P>(q, s, a, b, chunks.depth, part.stretch(first, last, q.shared()), P::kPanel);
    }
  }
}

/// Whether each chunk of scaled sums fits into the scratch. All that a recipe can ask for do.
LATHE_INLINE bool chunks_fit(const Operand& a, const Operand& b) {
  return Chunks(a, b).depth <= kLongest;
}

template <class P>
void product_by(Queue& q, const Tensor& c, const Operand& a, const Operand& b, const Epilogue& e) {
  if (c.rows <= kFewRows)
    few_rows_product<P>(q, c, a, b, e);
  else
    blocked_product<P>(q, c, a, b, e);
}

}  // namespace lathe::kernels
