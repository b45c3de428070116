// Compares every optimizer's SIMD implementation with its scalar reference, bit by bit, over element counts, types and
// SIMD targets.
#include <functional>

#include "tests/kernels/optimizer_runs.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(optimizer_bits)

namespace {

using state = optimizer_state<float>;
using piece = optimizer_piece<float>;

/// An optimizer's outputs besides the arrays of its piece: LAMB's square sums, Muon's update directions.
struct outputs {
  std::vector<double> weight_sums, update_sums;
  std::vector<float> direction;
};

using pass = std::function<void(const optimizer_step&, const piece&, outputs&)>;

struct subject {
  std::string name;
  pass simd, scalar;
};

template <class Options>
subject of_elements(std::string name, Options o, void (*simd)(const Options&, const optimizer_step&, const piece&),
                    void (*scalar)(const Options&, const optimizer_step&, const piece&)) {
  return {std::move(name), [=](const auto& s, const auto& p, outputs& /*out*/) { simd(o, s, p); },
          [=](const auto& s, const auto& p, outputs& /*out*/) { scalar(o, s, p); }};
}

/// Returns LAMB's trust ratio from square sums that are added in block order, as the collective adds them on every
/// rank.
double ratio_of(const lamb_options& o, const outputs& out) {
  return trust_ratio(o, std::accumulate(out.weight_sums.begin(), out.weight_sums.end(), 0.0),
                     std::accumulate(out.update_sums.begin(), out.update_sums.end(), 0.0));
}

subject of_lamb(std::string name, lamb_options o) {
  return {std::move(name),
          [=](const auto& s, const auto& p, outputs& out) {
            prepare_unchecked(o, s, p, out.weight_sums, out.update_sums);
            apply_unchecked(o, s, p, ratio_of(o, out));
          },
          [=](const auto& s, const auto& p, outputs& out) {
            prepare_reference(o, s, p, out.weight_sums, out.update_sums);
            apply_reference(o, s, p, ratio_of(o, out));
          }};
}

subject of_muon(std::string name, muon_options o) {
  return {std::move(name),
          [=](const auto& s, const auto& p, outputs& out) {
            prepare_unchecked(o, s, p, out.direction.data());
            apply_unchecked(o, s, p, out.direction.data());
          },
          [=](const auto& s, const auto& p, outputs& out) {
            prepare_reference(o, s, p, out.direction.data());
            apply_reference(o, s, p, out.direction.data());
          }};
}

std::vector<subject> subjects() {
  return {of_elements("adagrad", adagrad_options{}, adagrad, adagrad_reference),
          of_elements("adagrad with decay", adagrad_options{.epsilon = 1e-6, .weight_decay = 0.1, .lr_decay = 0.2},
                      adagrad, adagrad_reference),
          of_elements("lion", lion_options{}, lion, lion_reference),
          of_elements("lion with decay", lion_options{.beta1 = 0.5, .beta2 = 0.98, .weight_decay = 0.1}, lion,
                      lion_reference),
          of_elements("sgd", sgd_options{}, sgd, sgd_reference),
          of_elements("sgd with decay", sgd_options{.weight_decay = 0.1}, sgd, sgd_reference),
          of_elements("sgd with momentum", sgd_options{.momentum = 0.9, .dampening = 0.4}, sgd, sgd_reference),
          of_elements("sgd with nesterov", sgd_options{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}, sgd,
                      sgd_reference),
          of_lamb("lamb", {}),
          of_lamb("lamb with decay", {.weight_decay = 0.1, .bias_correction = false}),
          of_muon("muon", {}),
          of_muon("muon with decay", {.momentum = 0.9, .weight_decay = 0.1, .nesterov = false})};
}

/// Random numbers from which every case starts, generated once: each element count uses a prefix of them.
struct numbers {
  uint64_t most = edge_counts().back();
  std::vector<float> master = awkward_floats(most, 1), first = awkward_floats(most, 2),
                     second = awkward_floats(most, 3);
  std::vector<std::vector<std::byte>> gradients;
  numbers() {
    for (auto& x : second) x = std::abs(x);
    for (const auto type : fp32_dtypes) gradients.push_back(awkward_bytes(type, most, 4));
  }
  /// Returns the initial state of a case. Sums of squares (Adagrad's first moment, Adam's second) are never negative.
  [[nodiscard]] state start(uint64_t count, bool first_is_a_sum, uint64_t copy_bytes) const {
    const auto n = static_cast<std::ptrdiff_t>(count);
    const auto& m = first_is_a_sum ? second : first;
    return {.master = {master.begin(), master.begin() + n},
            .moments = {std::vector<float>{m.begin(), m.begin() + n},
                        std::vector<float>{second.begin(), second.begin() + n}},
            .copy = std::vector<std::byte>(count * copy_bytes)};
  }
};

const numbers& samples() {
  static const numbers all;
  return all;
}

bool first_is_a_sum(const subject& s) { return s.name.starts_with("adagrad"); }

outputs outputs_for(uint64_t count) {
  return {std::vector<double>(blocks_of(count)), std::vector<double>(blocks_of(count)), std::vector<float>(count)};
}

void check_same(const state& got, const outputs& got_out, const state& wanted, const outputs& wanted_out) {
  TROUPE_CHECK_SAME_BITS(got.master, wanted.master);
  TROUPE_CHECK_SAME_BITS(got.moments[0], wanted.moments[0]);
  TROUPE_CHECK_SAME_BITS(got.moments[1], wanted.moments[1]);
  TROUPE_CHECK_SAME_BITS(got.copy, wanted.copy);
  TROUPE_CHECK_SAME_BITS(got_out.weight_sums, wanted_out.weight_sums);
  TROUPE_CHECK_SAME_BITS(got_out.update_sums, wanted_out.update_sums);
  TROUPE_CHECK_SAME_BITS(got_out.direction, wanted_out.direction);
}

/// Compares one update; step number, learning rate and gradient scale vary with the element count.
void compare(const subject& x, uint64_t count, size_t gradient, core::dtype copy_type, bool with_copy) {
  const optimizer_step s{.step = count % 4 + 1, .lr = 1e-2, .gradient_scale = count % 7 == 0 ? 1.0F : 0.37F};
  auto got = samples().start(count, first_is_a_sum(x), with_copy ? core::size_of(copy_type) : 0);
  auto wanted = got;
  auto got_out = outputs_for(count);
  auto wanted_out = got_out;
  const auto* g = samples().gradients[gradient].data();
  x.simd(s, got.piece(g, fp32_dtypes[gradient], 0, count, copy_type), got_out);
  x.scalar(s, wanted.piece(g, fp32_dtypes[gradient], 0, count, copy_type), wanted_out);
  check_same(got, got_out, wanted, wanted_out);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_optimizer_count_type_and_target_gives_the_scalar_bits) {
  for_each_simd_target([] {
    for (const auto& x : subjects()) {
      BOOST_TEST_CONTEXT(x.name) {
        for (size_t gradient = 0; gradient < std::size(fp32_dtypes); ++gradient) {
          for (const auto copy_type : fp32_dtypes) {
            for (uint64_t count = 0; count <= 70; ++count) compare(x, count, gradient, copy_type, count % 9 != 0);
          }
          compare(x, edge_counts().back(), gradient, fp32_dtypes[gradient], true);
        }
        for (const uint64_t count : {1023U, 1024U, 1025U, 5000U}) compare(x, count, 1, core::dtype::bf16, true);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_parameter_split_at_blocks_gives_the_same_bits_and_sums) {
  const uint64_t count = 4000;
  const optimizer_step s{.step = 2, .lr = 1e-2};
  const auto* g = samples().gradients[0].data();
  const lamb_options lamb{.weight_decay = 0.1};
  const muon_options muon{.weight_decay = 0.1};
  auto whole = samples().start(count, false, 2);
  auto whole_out = outputs_for(count);
  prepare_unchecked(lamb, s, whole.piece(g, core::dtype::f32, 0, count), whole_out.weight_sums, whole_out.update_sums);
  apply_unchecked(lamb, s, whole.piece(g, core::dtype::f32, 0, count), 0.5);
  prepare_unchecked(muon, s, whole.piece(g, core::dtype::f32, 0, count), whole_out.direction.data());
  apply_unchecked(muon, s, whole.piece(g, core::dtype::f32, 0, count), whole_out.direction.data());
  for (uint64_t block = 0; block <= count / core::partition_grain; ++block) {
    const uint64_t cut = block * core::partition_grain;
    auto parts = samples().start(count, false, 2);
    auto out = outputs_for(count);
    const auto on = [&](uint64_t first, uint64_t n) {
      const auto p = parts.piece(g, core::dtype::f32, first, n);
      const auto sums = [&](std::vector<double>& all) {
        return std::span(all).subspan(first / core::partition_grain, blocks_of(n));
      };
      prepare_unchecked(lamb, s, p, sums(out.weight_sums), sums(out.update_sums));
      apply_unchecked(lamb, s, p, 0.5);
      prepare_unchecked(muon, s, p, out.direction.data() + first);
      apply_unchecked(muon, s, p, out.direction.data() + first);
    };
    on(0, cut);
    on(cut, count - cut);
    check_same(parts, out, whole, whole_out);
  }
}

BOOST_AUTO_TEST_CASE(elementwise_optimizers_may_be_split_anywhere) {
  const uint64_t count = 100;
  const optimizer_step s{.step = 1, .lr = 1e-2};
  const auto* g = samples().gradients[0].data();
  const std::vector<optimizer_options> all{adagrad_options{}, lion_options{}, sgd_options{.momentum = 0.9}};
  for (const auto& o : all) {
    auto whole = samples().start(count, true, 2);
    update(o, s, whole.piece(g, core::dtype::f32, 0, count));
    for (uint64_t cut = 0; cut <= count; ++cut) {
      auto parts = samples().start(count, true, 2);
      update(o, s, parts.piece(g, core::dtype::f32, 0, cut));
      update(o, s, parts.piece(g, core::dtype::f32, cut, count - cut));
      check_same(parts, {}, whole, {});
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
