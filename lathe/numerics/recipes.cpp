// The named recipes. Each says who published it; where a paper leaves a choice open, ours is in
// docs/recipes.md.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"

namespace lathe::numerics {

namespace {

constexpr Encoding kBf16{.format = Format::bf16};

/// For people: what it is called, what it does, who published it.
struct Title {
  std::string name, about, source;
};

/// One format for every operand, attention's too.
Recipe plain(Title t, const Encoding& e, DType activation, DType wide) {
  Recipe r;
  r.name = std::move(t.name);
  r.about = std::move(t.about);
  r.source = std::move(t.source);
  r.linear = products_of(e, e, e);
  r.scores = r.values = {e, e};
  r.activation = activation;
  r.residual = r.master = wide;
  return r;
}

Override in_bf16(std::string name) {
  Override o;
  o.name = std::move(name);
  o.products = products_of(kBf16, kBf16, kBf16);
  return o;
}

/// Linear layers as given; the head and attention in BF16, as every paper below has them.
Recipe low(Title t, const Products& linear) {
  Recipe r = plain(std::move(t), kBf16, DType::bf16, DType::f32);
  r.linear = linear;
  Override head = in_bf16("head");
  head.match = "head";
  r.overrides.push_back(std::move(head));
  return r;
}

Recipe fp16() {
  Recipe r = plain({"fp16", "FP16 operands and dynamic loss scaling; all else in FP32",
                    "Micikevicius et al., arXiv 1710.03740; window as PyTorch's GradScaler"},
                   {.format = Format::fp16}, DType::f32, DType::f32);
  // Attention's kernels multiply BF16, FP32 or FP64.
  const Encoding f32{.format = Format::f32};
  r.scores = r.values = {f32, f32};
  // Of losses summed over tokens: as 65536, PyTorch's, of the mean over 1024 tokens. 65536 itself
  // would make 65536 (p - 1) of a logit's gradient, which overflows at the first step.
  r.loss_scale = {.initial = 64, .window = 2000};
  return r;
}

Recipe tf32() {
  // Rounded as cvt.rna.tf32 does, ties away.
  Recipe r = plain({"tf32", "TF32 operands; all else in FP32",
                    "NVIDIA Ampere (A100) whitepaper, 2020; PTX ISA, cvt.rna.tf32"},
                   {.format = Format::tf32, .rounding = Tie::away}, DType::f32, DType::f32);
  const Encoding f32{.format = Format::f32};
  r.scores = r.values = {f32, f32};
  return r;
}

Recipe fp8_hybrid(Title t, Scaling s) {
  const Encoding e4m3{.format = Format::e4m3, .scaling = s};
  const Encoding e5m2{.format = Format::e5m2, .scaling = s};
  return low(std::move(t), products_of(e4m3, e4m3, e5m2));
}

Recipe fp8_e4m3_tensor() {
  const Encoding e{.format = Format::e4m3, .scaling = Scaling::current};
  return low(
      {"fp8-e4m3-tensor", "E4M3 for every operand, a scale for each tensor from its own amax",
       "TransformerEngine Float8CurrentScaling with Format.E4M3"},
      products_of(e, e, e));
}

Recipe fp8_deepseek() {
  const Encoding row{.format = Format::e4m3, .scaling = Scaling::tile};
  Encoding block = row;
  block.square = true;
  return low({"fp8-deepseek",
              "E4M3 for every operand; FP32 scales of 1x128 (x, dy) and 128x128 (w), sums of 128",
              "DeepSeek-V3, arXiv 2412.19437, section 3.3"},
             products_of(row, block, row));
}

Encoding mx(Format f) { return {.format = f, .scaling = Scaling::mx}; }

Recipe mxfp8() {
  const Encoding e = mx(Format::e4m3);
  return low({"mxfp8", "MXFP8: E4M3 for every operand, blocks of 32, scales rounded up",
              "Mishra et al., arXiv 2506.08027; TransformerEngine MXFP8BlockScaling"},
             products_of(e, e, e));
}

Recipe mxfp6() {
  const Encoding e = mx(Format::e2m3);
  return low({"mxfp6", "MXFP6: E2M3 forward, E3M2 gradients, blocks of 32, scales rounded up",
              "OCP Microscaling Formats v1.0; Rouhani et al., arXiv 2310.10537"},
             products_of(e, e, mx(Format::e3m2)));
}

/// Scaled by floor, the largest magnitude of a block is below 8 in steps of the scale: three
/// quarters of that is below E2M1's 6, so stochastic rounding never saturates and has no bias.
Recipe mxfp4() {
  const Encoding nearest = mx(Format::e2m1);
  Encoding turned = nearest, dy = nearest;
  turned.hadamard = dy.hadamard = 32;
  dy.rounding = Tie::stochastic;
  dy.mx_rule = MxRule::floor;
  dy.head_room = 0.75F;
  Products p = products_of(nearest, nearest, dy);
  p.grad_x.b = p.grad_w.b = turned;
  return low({"mxfp4",
              "MXFP4: stochastic rounding of gradients, Hadamard transforms of backward's operands",
              "Tseng et al., arXiv 2502.20586; Castro et al. (Quartet), arXiv 2505.14669"},
             p);
}

Recipe nvfp4() {
  const Encoding x{.format = Format::e2m1, .scaling = Scaling::nvfp4};
  Encoding w = x, dy = x, turned_x = x;
  w.square = true;
  dy.rounding = Tie::stochastic;
  turned_x.hadamard = 16;
  Encoding turned_dy = dy;
  turned_dy.hadamard = 16;
  Recipe r = low({"nvfp4",
                  "NVFP4: 16x16 weights, stochastic gradients, Hadamard transforms in grad_w; the "
                  "last 15 % of blocks, and all in the last 18 % of the run, in BF16",
                  "NVIDIA, arXiv 2509.25149; TransformerEngine NVFP4BlockScaling"},
                 {{x, w}, {dy, w}, {turned_dy, turned_x}});
  Override last = in_bf16("last-blocks");
  last.match = "layers.*";
  last.last_share = 0.15;
  Override end = in_bf16("end-of-run");
  end.from = 0.82;
  r.overrides.push_back(std::move(last));
  r.overrides.push_back(std::move(end));
  return r;
}

Recipe hif8() {
  const Encoding e{.format = Format::hif8, .scaling = Scaling::shift, .rounding = Tie::away};
  return low({"hif8", "HiF8 for every operand, a power of two for each tensor, ties away",
              "Huawei, arXiv 2409.16626, section 5"},
             products_of(e, e, e));
}

Recipe hif4() {
  const Encoding nearest{.format = Format::s1p2, .scaling = Scaling::hif4, .rounding = Tie::away};
  Encoding turned = nearest;
  turned.hadamard = 64;
  Encoding dy = turned;
  dy.rounding = Tie::stochastic;
  Products p = products_of(nearest, nearest, dy);
  p.grad_x.b = p.grad_w.b = turned;
  return low(
      {"hif4", "HiF4: stochastic rounding of gradients, Hadamard transforms of backward's operands",
       "Huawei, arXiv 2602.11287 (format), 2604.08826 (training)"},
      p);
}

Recipe int8() {
  const Encoding e{.format = Format::mxint8, .scaling = Scaling::row};
  return low({"int8", "INT8 for every operand, a scale for each row and column of a product",
              "torchao int8_mixed_precision_training"},
             products_of(e, e, e));
}

Recipe adaptive() {
  Recipe r = low(
      {"adaptive", "each product in NVFP4, MXFP8 or BF16, the lowest whose operands stay faithful",
       "ours; signals as in SNIP (arXiv 2602.01410) and TransformerEngine's debug statistics"},
      products_of(kBf16, kBf16, kBf16));
  r.adaptive.levels = {{"nvfp4", nvfp4().linear}, {"mxfp8", mxfp8().linear}, {"bf16", r.linear}};
  return r;
}

std::vector<Recipe> all() {
  return {
      plain({"fp32", "everything in FP32", "IEEE 754"}, {.format = Format::f32}, DType::f32,
            DType::f32),
      tf32(),
      plain({"bf16", "BF16 operands, FP32 sums, masters, gradients, moments and residual stream",
             "Kalamkar et al., arXiv 1905.12322"},
            kBf16, DType::bf16, DType::f32),
      fp16(),
      fp8_hybrid({"fp8-hybrid-current",
                  "E4M3 forward, E5M2 gradients, a scale for each tensor from its own amax",
                  "TransformerEngine Float8CurrentScaling; Micikevicius et al., arXiv 2209.05433"},
                 Scaling::current),
      fp8_hybrid({"fp8-hybrid-delayed",
                  "E4M3 forward, E5M2 gradients, a scale for each tensor from earlier steps",
                  "TransformerEngine DelayedScaling; Micikevicius et al., arXiv 2209.05433"},
                 Scaling::delayed),
      fp8_e4m3_tensor(),
      fp8_deepseek(),
      mxfp8(),
      mxfp6(),
      mxfp4(),
      nvfp4(),
      hif8(),
      hif4(),
      int8(),
      adaptive(),
      plain({"fp64", "everything in FP64: a yardstick; kernels = \"ref\" only", "IEEE 754"},
            {.format = Format::f64}, DType::f64, DType::f64),
  };
}

}  // namespace

std::span<const Recipe> recipes() {
  static const std::vector<Recipe> kRecipes = all();
  return kRecipes;
}

}  // namespace lathe::numerics
