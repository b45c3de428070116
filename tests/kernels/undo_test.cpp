// Tests that an optimizer update that saves the data it overwrites has the bits of a plain update, and that undoing it
// restores all bits.
#include "kernels/optimizer/undo.hpp"

#include <algorithm>
#include <limits>

#include "tests/kernels/optimizer_runs.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(undo)

namespace {

const std::vector<optimizer_options> all_optimizers{adamw_options{.weight_decay = 0.1},
                                                    adamw_options{.weight_decay = 0.1, .adamw_mode = false},
                                                    adagrad_options{},
                                                    lion_options{.weight_decay = 0.1},
                                                    sgd_options{},
                                                    sgd_options{.momentum = 0.9}};

// Element counts around the tile size in which the undo copy is made.
const std::vector<uint64_t> counts{0, 1, 63, 1025, 16 * 1024, 16 * 1024 + 1, 40'000};

template <class State>
optimizer_state<State> start(const optimizer_options& options, uint64_t count, uint64_t copy_bytes) {
  optimizer_state<State> out;
  const auto fill = [&](std::vector<State>& to, uint64_t seed) {
    for (const float x : awkward_floats(count, seed)) to.push_back(static_cast<State>(std::abs(x)));
  };
  fill(out.master, 1);
  for (size_t k = 0; k < moment_names(options).size(); ++k) fill(out.moments[k], 2 + k);
  if (copy_bytes > 0) out.copy = awkward_bytes(core::dtype::bf16, count, 5);
  return out;
}

template <class State>
bool same(const optimizer_state<State>& a, const optimizer_state<State>& b) {
  const auto same_bytes = [](const auto& x, const auto& y) {
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0);
  };
  return same_bytes(a.master, b.master) && same_bytes(a.moments[0], b.moments[0]) &&
         same_bytes(a.moments[1], b.moments[1]) && same_bytes(a.copy, b.copy);
}

template <class State>
void check(const optimizer_options& options, uint64_t count, core::dtype gradient_type, uint64_t copy_bytes,
           const std::vector<std::byte>& gradient) {
  const optimizer_step step{.step = 3, .lr = 1e-2, .gradient_scale = 0.37F};
  const auto before = start<State>(options, count, copy_bytes);
  auto got = before, wanted = before;
  const auto piece = got.piece(gradient.data(), gradient_type, 0, count);
  std::vector<std::byte> kept(undo_bytes(piece) + 64, std::byte{0x5A});
  update_keeping(options, step, piece, kept.data());
  update(options, step, wanted.piece(gradient.data(), gradient_type, 0, count));
  BOOST_TEST(same(got, wanted), "the update itself");
  if (count > 0) BOOST_TEST(!same(got, before));
  take_back(piece, kept.data());
  BOOST_TEST(same(got, before), "taken back");
  BOOST_TEST(std::all_of(kept.end() - 64, kept.end(), [](std::byte b) { return b == std::byte{0x5A}; }));
}

}  // namespace

BOOST_AUTO_TEST_CASE(undo_restores_every_bit) {
  for (const auto& options : all_optimizers)
    for (const uint64_t count : counts)
      for (const auto type : fp32_dtypes)
        for (const uint64_t copy_bytes : {0U, 2U})
          BOOST_TEST_CONTEXT("optimizer " << options.index() << ", count " << count) {
            check<float>(options, count, type, copy_bytes, awkward_bytes(type, count, 4));
          }
}

BOOST_AUTO_TEST_CASE(undo_restores_every_bit_in_fp64) {
  for (const auto& options : all_optimizers)
    for (const uint64_t count : counts)
      check<double>(options, count, core::dtype::f64, 0, awkward_bytes(core::dtype::f64, count, 4));
}

BOOST_AUTO_TEST_CASE(undo_restores_every_bit_after_gradients_that_are_not_finite) {
  for (const auto& options : all_optimizers)
    for (const float worst : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<std::byte> gradient(20'000 * sizeof(float));
      for (uint64_t i = 0; i < 20'000; ++i) std::memcpy(gradient.data() + i * sizeof(float), &worst, sizeof(float));
      check<float>(options, 20'000, core::dtype::f32, 2, gradient);
    }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
