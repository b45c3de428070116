// Compares the loss between a model and its teacher with plain fp64 formulas, and its gradient with finite differences
// of the loss.
#include "kernels/layers/distillation.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "samples.hpp"

namespace troupe::kernels::tests {

BOOST_AUTO_TEST_SUITE(distillation)

namespace {

std::vector<float> logits_of(uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> out(count);
  for (auto& x : out) x = normal(random);
  return out;
}

std::vector<double> softmax(std::span<const double> x, double temperature) {
  std::vector<double> out;
  for (const double v : x) out.push_back(std::exp(v / temperature));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& v : out) v /= sum;
  return out;
}

double kl(std::span<const double> p, std::span<const double> q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] > 0 ? p[i] * std::log(p[i] / q[i]) : 0;
  return sum;
}

double loss_of(std::span<const double> model, std::span<const double> teacher, size_t target,
               const distillation_terms& t) {
  const auto p = softmax(teacher, t.temperature), q = softmax(model, t.temperature);
  std::vector<double> m(p.size());
  for (size_t i = 0; i < m.size(); ++i) m[i] = t.beta * p[i] + (1 - t.beta) * q[i];
  const double apart = t.divergence == divergence::forward_kl   ? kl(p, q)
                       : t.divergence == divergence::reverse_kl ? kl(q, p)
                                                                : t.beta * kl(p, m) + (1 - t.beta) * kl(q, m);
  return t.cross_entropy * -std::log(softmax(model, 1)[target]) + t.logits * t.temperature * t.temperature * apart;
}

const distillation_terms all_terms[] = {{1, 0, 1, divergence::forward_kl},   {0.5, 1, 1, divergence::forward_kl},
                                        {0, 2, 4, divergence::forward_kl},   {0.3, 0.7, 0.5, divergence::reverse_kl},
                                        {0.3, 0.7, 2, divergence::jsd, 0.1}, {0, 1, 1, divergence::jsd, 0.9}};

}  // namespace

BOOST_AUTO_TEST_CASE(losses_are_those_of_the_formulas_and_gradients_those_of_the_losses) {
  constexpr uint64_t rows = 2, width = 37;
  constexpr double factor = 0.25;
  const auto of_model = logits_of(rows * width, 1), of_teacher = logits_of(rows * width, 2);
  const std::vector<double> model(of_model.begin(), of_model.end()), teacher(of_teacher.begin(), of_teacher.end());
  const std::vector<int64_t> targets = {5, 36};
  for (const auto& terms : all_terms) {
    auto wide = model;
    auto narrow = of_model;
    std::vector<double> losses(rows), in_fp32(rows);
    distil<double>(reinterpret_cast<std::byte*>(wide.data()), reinterpret_cast<const std::byte*>(teacher.data()),
                   core::dtype::f64, rows, width, targets.data(), terms, factor, losses.data());
    distil<float>(reinterpret_cast<std::byte*>(narrow.data()), reinterpret_cast<const std::byte*>(of_teacher.data()),
                  core::dtype::f32, rows, width, targets.data(), terms, factor, in_fp32.data());
    for (uint64_t r = 0; r < rows; ++r) {
      std::vector<double> row(model.begin() + long(r * width), model.begin() + long((r + 1) * width));
      const std::span taught(teacher.data() + r * width, width);
      const auto target = static_cast<size_t>(targets[r]);
      BOOST_TEST(losses[r] == loss_of(row, taught, target, terms), boost::test_tools::tolerance(1e-12));
      BOOST_TEST(in_fp32[r] == losses[r], boost::test_tools::tolerance(1e-5));
      for (uint64_t i = 0; i < width; ++i) {
        constexpr double step = 1e-5;
        const double at = row[i];
        row[i] = at + step;
        const double above = loss_of(row, taught, target, terms);
        row[i] = at - step;
        const double below = loss_of(row, taught, target, terms);
        row[i] = at;
        const double wanted = factor * (above - below) / (2 * step), got = wide[r * width + i];
        BOOST_TEST(std::abs(got - wanted) <= 1e-8 * (1 + std::abs(wanted)));
        BOOST_TEST(std::abs(double{narrow[r * width + i]} - got) <= 2e-6 * (1 + std::abs(got)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_model_that_says_what_its_teacher_says_learns_from_the_data_alone) {
  constexpr uint64_t width = 256;
  const auto logits = logits_of(width, 3);
  const std::vector<int64_t> target = {17};
  for (const auto kind : {divergence::forward_kl, divergence::reverse_kl, divergence::jsd}) {
    auto gradient = logits;
    double loss = 1;
    distil<float>(reinterpret_cast<std::byte*>(gradient.data()), reinterpret_cast<const std::byte*>(logits.data()),
                  core::dtype::f32, 1, width, target.data(), {0, 1, 3, kind}, 1, &loss);
    BOOST_TEST(std::abs(loss) <= 1e-5);
    for (const float g : gradient) BOOST_TEST_CONTEXT("g " << g) BOOST_TEST(std::abs(g) <= 1e-6F);
  }
}

BOOST_AUTO_TEST_CASE(a_row_has_the_same_bits_wherever_it_stands) {
  constexpr uint64_t rows = 5, width = 300;
  const distillation_terms terms{0.5, 1, 2, divergence::jsd, 0.5};
  const std::vector<int64_t> targets = {1, 299, 7, 0, 33};
  for (const core::dtype type : fp32_dtypes) {
    const auto model = stored_as(type, logits_of(rows * width, 5)),
               teacher = stored_as(type, logits_of(rows * width, 6));
    const uint64_t row_bytes = width * core::size_of(type);
    auto at_once = model, one_by_one = model;
    std::vector<double> losses(rows), each(rows);
    distil<float>(at_once.data(), teacher.data(), type, rows, width, targets.data(), terms, 0.1, losses.data());
    for (uint64_t r = 0; r < rows; ++r)
      distil<float>(one_by_one.data() + r * row_bytes, teacher.data() + r * row_bytes, type, 1, width, &targets[r],
                    terms, 0.1, &each[r]);
    TROUPE_CHECK_SAME_BITS(one_by_one, at_once);
    TROUPE_CHECK_SAME_BITS(each, losses);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::kernels::tests
