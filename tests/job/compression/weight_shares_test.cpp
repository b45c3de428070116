// Tests the shards of a compressed matrix: together they must equal the compressed whole matrix bit for bit, however it
// is cut.
#include "job/compression/weight_shares.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <random>

#include "core/tp_slices.hpp"

BOOST_AUTO_TEST_SUITE(weight_shares)

using namespace troupe;

namespace {

using kernels::value_range;

constexpr auto type = core::dtype::f32;

std::vector<float> some_weights(uint64_t count) {
  std::mt19937 random(19);
  std::normal_distribution<float> normal(0.05F, 1.0F);
  std::vector<float> out(count);
  for (auto& x : out) x = normal(random);
  return out;
}

const std::byte* bytes_of(const std::vector<float>& x) { return reinterpret_cast<const std::byte*>(x.data()); }
std::byte* bytes_in(std::vector<float>& x) { return reinterpret_cast<std::byte*>(x.data()); }

/// Returns the elements of one tensor-parallel rank's shard; padding has a value that must not affect any compressed
/// element.
std::vector<float> share_of(const std::vector<float>& whole, const core::tp_slices& slices) {
  std::vector<float> out(slices.elements(), 1000.0F);
  for (const auto& run : slices.runs(0, slices.elements()))
    if (!run.is_padding()) std::copy_n(&whole[run.whole], run.count, &out[run.local]);
  return out;
}

struct matrix {
  kernels::weight_recipe recipe;
  core::parameter_info info, local;
  core::parameter_cut cut;
};

matrix cut_matrix(uint64_t rows, uint64_t columns, const kernels::weight_recipe& like, uint32_t dimension,
                  const std::vector<core::tp_widths>& parts) {
  matrix m{
      like, {.name = "w", .shape = {int64_t(rows), int64_t(columns)}}, {}, {core::tp_style::column, dimension, parts}};
  m.recipe.rows = rows;
  m.recipe.columns = columns;
  m.local = {.name = "w", .shape = core::local_shape(m.info.shape, m.cut)};
  return m;
}

void check_shares(const matrix& m, const kernels::weight_moment& now) {
  const uint32_t degree = uint32_t(m.cut.parts.front().size());
  const auto whole = some_weights(m.recipe.elements());
  std::vector<float> wanted(whole.size()), room(m.recipe.elements());
  kernels::compress_weight(m.recipe, type, bytes_of(whole), bytes_in(wanted), std::as_writable_bytes(std::span(room)),
                           now);
  BOOST_TEST_REQUIRE(wanted != whole);

  const bool ternary = m.recipe.grid.kind == kernels::quantiser_kind::ternary;
  const auto shares = job::shares_of(m.recipe, m.info, m.local, m.cut, degree, ternary);
  const uint64_t told = job::agreed_ranges(shares);
  std::vector<value_range<double>> ranges(told * degree);
  const auto of_rank = [&](uint32_t t) { return std::span(ranges).subspan(t * told, told); };
  std::vector<std::vector<float>> own;
  for (uint32_t t = 0; t < degree; ++t) {
    own.push_back(share_of(whole, core::tp_slices(m.info.shape, m.cut, t)));
    if (told > 0) kernels::share_ranges(shares[t], m.recipe.grid, type, bytes_of(own[t]), of_rank(t));
  }
  const auto first = ranges;
  for (uint32_t t = 0; t < degree && told > 0; ++t)
    kernels::share_sums_above(shares[t], m.recipe.grid, type, bytes_of(own[t]), first, of_rank(t));
  for (uint32_t t = 0; t < degree; ++t) {
    std::vector<float> got(own[t].size());
    kernels::compress_share(shares[t], type, bytes_of(own[t]), ranges, bytes_in(got),
                            std::as_writable_bytes(std::span(room)), now);
    const auto expected = share_of(wanted, core::tp_slices(m.info.shape, m.cut, t));
    BOOST_TEST(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0, "coordinate " << t);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(shares_are_the_compressed_whole_whatever_is_cut_and_however_groups_lie) {
  const std::vector<core::tp_widths> by_rows{{10, 8, 6}, {4, 2, 2}, {4, 2, 2}}, by_columns{{12, 10, 10}};
  for (const uint64_t groups : {1U, 4U, 10U, 40U, 64U, 320U})
    for (const bool transposed : {false, true})
      for (const bool stochastic : {false, true})
        for (const auto kind : {kernels::quantiser_kind::symmetric, kernels::quantiser_kind::asymmetric})
          for (const float kept : {0.0F, 0.25F}) {
            const kernels::weight_recipe like{{kind, 4}, groups, 0, 0, transposed, stochastic};
            kernels::weight_moment now{.kept = kept};
            if (stochastic) now.noise = kernels::rounding_key{1, 2, 3};
            BOOST_TEST_CONTEXT(groups << " groups, transposed " << transposed << ", stochastic " << stochastic) {
              check_shares(cut_matrix(40, 32, like, 0, by_rows), now);
              check_shares(cut_matrix(40, 32, like, 1, by_columns), now);
            }
          }
}

// The sums of a group's parts are added rank by rank in fp64, so that the fp32 results are equal however the group is
// cut.
BOOST_AUTO_TEST_CASE(groups_of_one_and_two_bits_are_those_of_the_whole_wherever_they_are_cut) {
  for (const uint32_t bits : {1U, 2U})
    for (const uint64_t groups : {1U, 4U, 40U, 64U})
      for (const bool transposed : {false, true}) BOOST_TEST_CONTEXT(bits << " bits, " << groups << " groups") {
          const kernels::weight_recipe like{kernels::weight_quantiser(bits, true).value(), groups, 0, 0, transposed};
          check_shares(cut_matrix(40, 32, like, 0, {{20, 20}}), {});
          check_shares(cut_matrix(40, 32, like, 1, {{12, 10, 10}}), {.kept = 0.25F});
          check_shares(cut_matrix(40, 32, like, 0, {{10, 8, 6}, {4, 2, 2}, {4, 2, 2}}), {});
        }
}

BOOST_AUTO_TEST_CASE(what_is_no_number_on_one_rank_is_none_on_any) {
  const kernels::weight_recipe like{{kernels::quantiser_kind::symmetric, 4}, 1, 0, 0, false};
  const auto m = cut_matrix(4, 4, like, 0, {{2, 2}});
  const auto shares = job::shares_of(m.recipe, m.info, m.local, m.cut, 2, false);
  std::vector<float> a = some_weights(8), b = a;
  b[3] = std::nanf("");
  std::vector<value_range<double>> ranges(2);
  kernels::share_ranges(shares[0], like.grid, type, bytes_of(a), std::span(ranges).first(1));
  kernels::share_ranges(shares[1], like.grid, type, bytes_of(b), std::span(ranges).last(1));
  std::vector<float> got(8);
  kernels::compress_share(shares[0], type, bytes_of(a), ranges, bytes_in(got), {});
  BOOST_TEST(got == a, boost::test_tools::per_element());  // the shard is the whole matrix, so it keeps its values
}

BOOST_AUTO_TEST_SUITE_END()
