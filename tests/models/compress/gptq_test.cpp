// Compares GPTQ with a readable implementation that uses no Cholesky factor but removes each column from the inverse.
#include "models/compress/gptq.hpp"

#include <ATen/ops/eye.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "core/math.hpp"
#include "models/compress/channel_scales.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/compress/unit_walk.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(gptq)

using namespace troupe;
using namespace troupe::models;
using troupe::tests::check_ok;

namespace {

using matrix = std::vector<std::vector<double>>;

/// Returns pseudo-random inputs whose columns are correlated and differ greatly in magnitude.
at::Tensor inputs(int64_t rows, int64_t columns) {
  const at::Tensor x = at::empty({rows, columns}, at::kFloat);
  auto* to = x.mutable_data_ptr<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<uint64_t>(r * columns + c);
      const float own = static_cast<float>(core::mix64(at) >> 40) * 0x1p-24F - 0.5F;
      to[at] = own * static_cast<float>(1 + c % 7) + (c > 0 ? 0.6F * to[at - 1] : 0.0F);
    }
  return x;
}
at::Tensor weights(int64_t rows, int64_t columns) {
  const at::Tensor w = at::empty({rows, columns}, at::kFloat);
  for (int64_t i = 0; i < w.numel(); ++i)
    w.mutable_data_ptr<float>()[i] =
        static_cast<float>(core::mix64(static_cast<uint64_t>(i) + 77) >> 40) * 0x1p-24F - 0.5F;
  return w;
}

/// Returns the inverse of a positive definite matrix, by elimination.
matrix inverse(matrix a) {
  const size_t n = a.size();
  matrix out(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i) out[i][i] = 1;
  for (size_t i = 0; i < n; ++i) {
    const double by = a[i][i];
    for (size_t j = 0; j < n; ++j) {
      a[i][j] /= by;
      out[i][j] /= by;
    }
    for (size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double f = a[k][i];
      for (size_t j = 0; j < n; ++j) {
        a[k][j] -= f * a[i][j];
        out[k][j] -= f * out[i][j];
      }
    }
  }
  return out;
}

/// Runs GPTQ column by column: rounds a column, compensates its error in the later columns, and removes it from the
/// inverse.
std::vector<int> readable_twin(const at::Tensor& w, const at::Tensor& products, const checkpoint::stored_form& form) {
  const auto rows = static_cast<size_t>(w.size(0)), n = static_cast<size_t>(w.size(1)), group = form.group();
  matrix h(n, std::vector<double>(n)), now(rows, std::vector<double>(n));
  double mean = 0;
  for (size_t i = 0; i < n; ++i) mean += static_cast<double>(products[i][i].item<float>()) / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      h[i][j] = static_cast<double>(products[i][j].item<float>()) + (i == j ? 0.01 * mean : 0);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < n; ++c) now[r][c] = static_cast<double>(w[r][c].item<float>());
  matrix inv = inverse(h);
  std::vector<int> q(rows * n);
  std::vector<checkpoint::affine_grid> grids(rows);
  for (size_t c = 0; c < n; ++c) {
    for (size_t r = 0; r < rows; ++r) {
      if (c % group == 0) {
        std::vector<float> values(now[r].begin() + static_cast<ptrdiff_t>(c),
                                  now[r].begin() + static_cast<ptrdiff_t>(c + group));
        grids[r] = form.fit(values).value();
      }
      const auto& g = grids[r];
      const double raw = std::nearbyint((now[r][c] - g.offset) / g.scale);
      const int code = static_cast<int>(std::min<double>(std::max<double>(raw, g.low), g.high));
      q[r * n + c] = code;
      const double error = (now[r][c] - (static_cast<double>(g.scale) * code + g.offset)) / inv[c][c];
      for (size_t j = c; j < n; ++j) now[r][j] -= error * inv[c][j];
    }
    const auto gone = inv[c];
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) inv[i][j] -= gone[i] * gone[j] / gone[c];
  }
  return q;
}

/// Returns the squared error of the outputs: the trace of delta * products * delta^T, with delta = values - w.
double lost(const at::Tensor& w, const at::Tensor& values, const at::Tensor& products) {
  const at::Tensor delta = values.sub(w);
  return at::mm(delta, products).mul(delta).sum().item<double>();
}

formats::compressed_matrix int4(uint64_t rows, uint64_t columns, uint64_t group, bool symmetric = true) {
  return {rows, columns, {.bits = 4, .symmetric = symmetric, .group_size = group, .scale_type = core::dtype::f32}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(codes_are_those_of_a_readable_twin) {
  const auto w = weights(5, 64), x = inputs(300, 64), h = at::mm(x.t(), x);
  const gptq_options plain{.act_order = false, .narrower_grids = 0};
  for (const auto& form :
       {checkpoint::form_of(int4(5, 64, 32)), checkpoint::form_of(int4(5, 64, 16, false)),
        checkpoint::form_of(formats::gguf_type::q4_0, 5, 64), checkpoint::form_of(formats::gguf_type::q8_0, 5, 64)}) {
    const auto ours = check_ok(models::gptq(w, h, *form, plain));
    const auto twin = readable_twin(w, h, *form);
    size_t other = 0;
    for (size_t i = 0; i < twin.size(); ++i) other += twin[i] != ours->q[i] ? 1 : 0;
    BOOST_TEST(other <= twin.size() / 100, form->name()
                                               // the implementations may differ in few codes, because one sums in fp32
                                               // and the other in double
                                               << ": " << other << " codes differ");
  }
}

BOOST_AUTO_TEST_CASE(outputs_lose_less_than_by_rounding_and_less_still_in_order_and_with_narrower_grids) {
  const auto w = weights(24, 256), x = inputs(600, 256), h = at::mm(x.t(), x);
  for (const auto& form : {checkpoint::form_of(int4(24, 256, 32)), checkpoint::form_of(int4(24, 256, 0)),
                           checkpoint::form_of(formats::gguf_type::q4_0, 24, 256),
                           checkpoint::form_of(formats::gguf_type::q4_1, 24, 256)}) {
    const at::Tensor rounded = w.clone();
    BOOST_TEST_REQUIRE(
        form->round({rounded.mutable_data_ptr<float>(), static_cast<size_t>(rounded.numel())}, {}).has_value());
    const double nearest = lost(w, rounded, h);
    const double plain = lost(w, models::gptq(w, h, *form, {.act_order = false, .narrower_grids = 0})->values, h);
    const double best = lost(w, models::gptq(w, h, *form)->values, h);
    BOOST_TEST(plain < 0.8 * nearest, form->name());
    BOOST_TEST(best < 0.95 * plain, form->name());
  }
}

BOOST_AUTO_TEST_CASE(inputs_that_do_not_lean_on_each_other_leave_rounding_to_nearest) {
  const auto w = weights(8, 64), h = at::eye(64);
  const auto form = checkpoint::form_of(int4(8, 64, 32));
  const auto codes = check_ok(models::gptq(w, h, *form, {.act_order = false, .narrower_grids = 0}));
  const at::Tensor rounded = w.clone();
  BOOST_TEST_REQUIRE(form->round({rounded.mutable_data_ptr<float>(), 512}, {}).has_value());
  BOOST_TEST(codes->values.sub(rounded).abs().max().item<float>() < 1e-6F);
}

BOOST_AUTO_TEST_CASE(packed_codes_are_read_back_as_the_values_that_were_chosen) {
  const auto w = weights(16, 64), x = inputs(300, 64), h = at::mm(x.t(), x);
  for (const auto type : {formats::gguf_type::q4_0, formats::gguf_type::q4_1, formats::gguf_type::q5_0,
                          formats::gguf_type::q5_1, formats::gguf_type::q8_0}) {
    const auto form = checkpoint::form_of(type, 16, 64);
    const auto codes = check_ok(models::gptq(w, h, *form));
    const auto parts = check_ok(form->pack(codes->grids, codes->q));
    std::vector<float> back(16 * 64);
    const auto format = formats::blocks_of(type);
    BOOST_TEST(kernels::dequantise_blocks(*format, parts->front().bytes.data(), 32, back.data()) == kernels::no_block);
    for (size_t i = 0; i < back.size(); ++i)
      BOOST_TEST(std::abs(back[i] - codes->values.const_data_ptr<float>()[i]) < 1e-6F, form->name());
  }
  const auto m = int4(16, 64, 16, false);
  const auto form = checkpoint::form_of(m);
  const auto codes = models::gptq(w, h, *form);
  const auto parts = form->pack(codes->grids, codes->q);
  BOOST_TEST_REQUIRE((codes.has_value() && parts.has_value() && parts->size() == 3U));
  std::vector<kernels::group_scale> scales(16 * 4);
  for (const auto& p : *parts) {
    if (p.part == formats::weight_part::scales) BOOST_TEST(formats::decode_scales(m, p.bytes, 0, scales).has_value());
    if (p.part == formats::weight_part::zeros)
      formats::decode_zeros(m, formats::words_of_rows(m, 0, 16), p.bytes, 0, scales);
  }
  std::vector<float> back(16 * 64);
  formats::decode_rows(m, parts->front().bytes, scales, 1, back);
  for (size_t i = 0; i < back.size(); ++i)
    BOOST_TEST(std::abs(back[i] - codes->values.const_data_ptr<float>()[i]) < 1e-6F);
}

BOOST_AUTO_TEST_CASE(a_column_that_was_always_zero_is_rounded_and_moves_no_other) {
  const auto w = weights(4, 64);
  at::Tensor x = inputs(300, 64);
  x.select(1, 5).zero_();
  const auto form = checkpoint::form_of(int4(4, 64, 32));
  const auto codes = check_ok(models::gptq(w, at::mm(x.t(), x), *form));
  for (int64_t r = 0; r < 4; ++r) BOOST_TEST_CONTEXT("r " << r)
  BOOST_TEST(std::abs(codes->values[r][5].item<float>() - w[r][5].item<float>()) <=
             0.51F * codes->grids[static_cast<size_t>(r * 2)].scale);
}

BOOST_AUTO_TEST_CASE(folded_scales_change_no_output_of_a_norm_and_the_layers_behind_it) {
  const auto x = inputs(20, 32), w = weights(12, 32);
  std::vector<at::Tensor> memory{weights(1, 32).select(0, 0).add(1).clone(), w.clone()};
  const auto outputs = [&] { return at::mm(x.mul(memory[0]), memory[1].t()); };
  const at::Tensor before = outputs();
  input_statistics seen({.wants_products = true});
  seen.takes(1, x.mul(memory[0]));
  const scaled_channels c{.before = 0, .weights = {1}};
  const auto at = [&](uint32_t q) { return memory[q]; };
  const at::Tensor scales = smooth_scales(c, seen.inputs().front(), at);
  fold(c, scales, at);
  BOOST_TEST(outputs().sub(before).abs().max().item<float>() < 1e-4F);
  // After scaling, the ratio between the largest input and the largest weight is the same in all channels.
  const at::Tensor ratio = x.mul(memory[0]).abs().amax(0).div(memory[1].abs().amax(0));
  BOOST_TEST(ratio.max().item<float>() / ratio.min().item<float>() < 1.001F);
}

BOOST_AUTO_TEST_CASE(a_walk_takes_a_units_memory_whatever_the_number_of_units) {
  const auto spec_of = [](uint32_t layers) {
    return parse_model_spec(fmt::format(R"({{"model_type": "llama", "hidden_size": 512, "intermediate_size": 1376,
                               "vocab_size": 256, "num_attention_heads": 8, "max_position_embeddings": 128,
                               "num_hidden_layers": {}}})",
                                        layers))
        .value();
  };
  const uint64_t deep = walk_bytes(spec_of(48), 128, true);
  BOOST_TEST(deep == walk_bytes(spec_of(2), 128, true));
  BOOST_TEST(4 * deep <= make_model_table(spec_of(48), 1, 1, 4).numel() * sizeof(float));
  BOOST_TEST(walk_bytes(spec_of(2), 128, false) < deep);
}

BOOST_AUTO_TEST_CASE(two_inputs_in_one_place_of_memory_are_two) {
  input_statistics seen({.wants_products = true});
  {
    const at::Tensor x = inputs(8, 16);
    seen.takes(0, x);
    seen.takes(1, x);
  }
  seen.takes(2, inputs(8, 16).mul(2));
  BOOST_TEST_REQUIRE(seen.inputs().size() == 2U);
  BOOST_TEST(seen.of(1) == seen.of(0));
  BOOST_TEST(seen.of(2)->rows == 8U);
  BOOST_TEST(std::abs(seen.of(2)->squares.sum().item<float>() / seen.of(0)->squares.sum().item<float>() - 4) < 1e-3F);
}

BOOST_AUTO_TEST_SUITE_END()
