#include "kernels/optimizer/adamw.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/kernels/samples.hpp"
#include "tests/places.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(adamw)

namespace {
/// All arrays that one AdamW update reads and writes.
struct state {
  std::vector<float> p, m, v;
  std::vector<std::byte> copy;
  explicit state(uint64_t count, core::dtype copy_type = core::dtype::bf16)
      : p(awkward_floats(count, 1)),
        m(awkward_floats(count, 2)),
        v(awkward_floats(count, 3)),
        copy(count * core::size_of(copy_type)) {
    for (auto& x : v) x = std::abs(x);
  }

  optimizer_piece<float> piece(const std::vector<std::byte>& gradient, core::dtype gradient_type) {
    return {.master = p.data(),
            .moments = {m.data(), v.data()},
            .gradient = gradient.data(),
            .gradient_dtype = gradient_type,
            .copy = copy.data(),
            .count = p.size()};
  }
};

void check_same(const state& got, const state& wanted) {
  TROUPE_CHECK_SAME_BITS(got.p, wanted.p);
  TROUPE_CHECK_SAME_BITS(got.m, wanted.m);
  TROUPE_CHECK_SAME_BITS(got.v, wanted.v);
  TROUPE_CHECK_SAME_BITS(got.copy, wanted.copy);
}
/// Returns the norm of the difference between `got` and `wanted`, divided by the norm of `wanted`.
double relative_difference(const std::vector<float>& got, const std::vector<double>& wanted) {
  BOOST_REQUIRE_EQUAL(got.size(), wanted.size());
  double difference = 0;
  double size = 0;
  for (uint64_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - wanted[i], 2);
    size += wanted[i] * wanted[i];
  }
  return std::sqrt(difference / size);
}
}  // namespace

BOOST_AUTO_TEST_CASE(ten_steps_agree_with_torch_to_a_millionth) {
  // The script tests/peer/make_adamw_fixture.py generates the fixture.
  std::ifstream file((std::string(troupe::places::source_dir) + "/tests/kernels/fixtures/adamw.json"));
  BOOST_REQUIRE(file);
  const auto fixture = nlohmann::json::parse(file);
  const auto start = fixture["start"].get<std::vector<float>>();
  const auto gradients = fixture["gradients"].get<std::vector<std::vector<float>>>();
  BOOST_REQUIRE_EQUAL(gradients.size(), 10);
  BOOST_REQUIRE_EQUAL(fixture["cases"].size(), 3);
  for (const auto& [name, wanted] : fixture["cases"].items()) {
    BOOST_TEST_CONTEXT(name) {
      const auto& given = wanted["options"];
      const adamw_options o{.beta1 = given["betas"][0],
                            .beta2 = given["betas"][1],
                            .epsilon = given["eps"],
                            .weight_decay = given["weight_decay"],
                            .adamw_mode = !given["l2"].get<bool>()};
      auto p = start;
      std::vector<float> m(p.size());
      std::vector<float> v(p.size());
      for (uint64_t t = 0; t < gradients.size(); ++t) {
        kernels::adamw(o, {.step = t + 1, .lr = given["lr"]},
                       optimizer_piece<float>{.master = p.data(),
                                              .moments = {m.data(), v.data()},
                                              .gradient = reinterpret_cast<const std::byte*>(gradients[t].data()),
                                              .count = p.size()});
      }
      BOOST_CHECK_LT(relative_difference(p, wanted["parameter"].get<std::vector<double>>()), 1e-6);
      BOOST_CHECK_LT(relative_difference(m, wanted["exp_avg"].get<std::vector<double>>()), 1e-6);
      BOOST_CHECK_LT(relative_difference(v, wanted["exp_avg_sq"].get<std::vector<double>>()), 1e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_count_type_and_target_gives_the_scalar_bits) {
  for_each_simd_target([] {
    for (const auto gradient_type : fp32_dtypes) {
      for (const auto copy_type : fp32_dtypes) {
        for (const uint64_t count : edge_counts()) {
          const auto gradient = awkward_bytes(gradient_type, count, 4);
          state got(count, copy_type);
          state wanted(count, copy_type);
          const adamw_options o{.weight_decay = count % 2 == 0 ? 0.1 : 0.0,
                                .adamw_mode = count % 3 != 0,
                                .bias_correction = count % 5 != 0};
          const optimizer_step s{.step = count + 1, .lr = 1e-2, .gradient_scale = count % 7 == 0 ? 1.0F : 0.37F};
          auto piece = got.piece(gradient, gradient_type), same = wanted.piece(gradient, gradient_type);
          piece.copy_dtype = same.copy_dtype = copy_type;
          kernels::adamw(o, s, piece);
          adamw_reference(o, s, same);
          check_same(got, wanted);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(without_a_copy_the_weights_have_the_same_bits) {
  const auto gradient = awkward_bytes(core::dtype::bf16, 1003, 4);
  state with(1003);
  state without(1003);
  kernels::adamw({}, {}, with.piece(gradient, core::dtype::bf16));
  auto no_copy = without.piece(gradient, core::dtype::bf16);
  no_copy.copy = nullptr;
  kernels::adamw({}, {}, no_copy);
  TROUPE_CHECK_SAME_BITS(with.p, without.p);
  TROUPE_CHECK_SAME_BITS(with.m, without.m);
  TROUPE_CHECK_SAME_BITS(with.v, without.v);
}

BOOST_AUTO_TEST_CASE(a_range_split_anywhere_gives_the_same_bits) {
  const uint64_t count = 300;
  const auto gradient = awkward_bytes(core::dtype::f32, count, 4);
  const adamw_options o{.weight_decay = 0.01};
  state whole(count);
  kernels::adamw(o, {}, whole.piece(gradient, core::dtype::f32));
  for (uint64_t cut = 0; cut <= count; ++cut) {
    state parts(count);
    auto first = parts.piece(gradient, core::dtype::f32), second = first;
    first.count = cut;
    second.master += cut;
    second.moments[0] += cut;
    second.moments[1] += cut;
    second.gradient += 4 * cut;
    second.copy += 2 * cut;
    second.count = count - cut;
    kernels::adamw(o, {}, first);
    kernels::adamw(o, {}, second);
    check_same(parts, whole);
  }
}

BOOST_AUTO_TEST_CASE(fp32_follows_fp64_within_rounding) {
  const uint64_t count = 500;
  state s(count);
  std::vector<double> p(s.p.begin(), s.p.end());
  std::vector<double> m(s.m.begin(), s.m.end());
  std::vector<double> v(s.v.begin(), s.v.end());
  const auto g = awkward_floats(count, 8);
  const std::vector<double> wide_g(g.begin(), g.end());
  const adamw_options o{.weight_decay = 0.1};
  for (uint64_t t = 1; t <= 10; ++t) {
    const optimizer_step step{.step = t, .lr = 1e-3};
    kernels::adamw(o, step,
                   optimizer_piece<float>{.master = s.p.data(),
                                          .moments = {s.m.data(), s.v.data()},
                                          .gradient = reinterpret_cast<const std::byte*>(g.data()),
                                          .count = count});
    kernels::adamw(o, step,
                   optimizer_piece<double>{.master = p.data(),
                                           .moments = {m.data(), v.data()},
                                           .gradient = reinterpret_cast<const std::byte*>(wide_g.data()),
                                           .gradient_dtype = core::dtype::f64,
                                           .count = count});
  }
  BOOST_CHECK_LT(relative_difference(s.p, p), 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
