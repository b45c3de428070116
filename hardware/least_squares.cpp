#include "hardware/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace troupe::hardware {
namespace {

constexpr int most_steps = 200;
constexpr double difference_step = 1e-6, first_damping = 1e-3, most_damping = 1e12;
/// Relative decrease of the sum of squares, and size of a step, below which a fit has converged.
constexpr double least_decrease = 1e-12, least_step = 1e-10;

double sum_of_squares(const std::vector<double>& r) {
  double out = 0;
  for (const double x : r) out += x * x;
  return out;
}

/// A symmetric system of equations, `matrix` x = `right`, row by row.
struct normal_equations {
  size_t size = 0;
  std::vector<double> matrix, right;
};

/// Solves a positive definite system by Cholesky's method; returns nothing if it is not positive definite.
std::vector<double> solved(normal_equations e) {
  const size_t n = e.size;
  const auto a = [&](size_t i, size_t j) -> double& { return e.matrix[i * n + j]; };
  for (size_t j = 0; j < n; ++j) {
    for (size_t k = 0; k < j; ++k) a(j, j) -= a(j, k) * a(j, k);
    if (!(a(j, j) > 0)) return {};
    a(j, j) = std::sqrt(a(j, j));
    for (size_t i = j + 1; i < n; ++i) {
      for (size_t k = 0; k < j; ++k) a(i, j) -= a(i, k) * a(j, k);
      a(i, j) /= a(j, j);
    }
  }
  auto& x = e.right;
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) x[i] -= a(i, k) * x[k];
    x[i] /= a(i, i);
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) x[i] -= a(k, i) * x[k];
    x[i] /= a(i, i);
  }
  return std::move(e.right);
}

}  // namespace

std::vector<double> least_squares(const std::vector<bounded_variable>& variables,
                                  const std::function<std::vector<double>(const std::vector<double>&)>& residuals) {
  const size_t n = variables.size();
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = std::clamp(variables[i].start, variables[i].low, variables[i].high);
  auto r = residuals(x);
  double cost = sum_of_squares(r), damping = first_damping;
  for (int step = 0; step < most_steps; ++step) {
    std::vector<std::vector<double>> slopes(n);  // one for each variable: how the residuals change with it
    for (size_t i = 0; i < n; ++i) {
      auto moved = x;
      const double h = x[i] + difference_step <= variables[i].high ? difference_step : -difference_step;
      moved[i] += h;
      slopes[i] = residuals(moved);
      for (size_t k = 0; k < r.size(); ++k) slopes[i][k] = (slopes[i][k] - r[k]) / h;
    }
    normal_equations e{n, std::vector<double>(n * n), std::vector<double>(n)};
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < r.size(); ++k) e.right[i] -= slopes[i][k] * r[k];
      for (size_t j = 0; j <= i; ++j) {
        double product = 0;
        for (size_t k = 0; k < r.size(); ++k) product += slopes[i][k] * slopes[j][k];
        e.matrix[i * n + j] = e.matrix[j * n + i] = product;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      const bool stays = (x[i] <= variables[i].low && e.right[i] < 0) || (x[i] >= variables[i].high && e.right[i] > 0);
      if (!stays) continue;
      for (size_t j = 0; j < n; ++j) e.matrix[i * n + j] = e.matrix[j * n + i] = 0;
      e.matrix[i * n + i] = 1;
      e.right[i] = 0;
    }
    bool has_moved = false;
    for (; damping < most_damping && !has_moved; damping *= 4) {
      auto damped = e;
      for (size_t i = 0; i < n; ++i) damped.matrix[i * n + i] *= 1 + damping;
      const auto change = solved(std::move(damped));
      if (change.empty()) continue;
      auto next = x;
      double largest = 0;
      for (size_t i = 0; i < n; ++i) {
        next[i] = std::clamp(x[i] + change[i], variables[i].low, variables[i].high);
        largest = std::max(largest, std::abs(next[i] - x[i]));
      }
      auto next_r = residuals(next);
      const double next_cost = sum_of_squares(next_r);
      if (!(next_cost < cost)) {
        if (largest < least_step) return x;
        continue;
      }
      const bool is_done = cost - next_cost < least_decrease * cost || largest < least_step;
      x = std::move(next);
      r = std::move(next_r);
      cost = next_cost;
      if (is_done) return x;
      has_moved = true;
      damping /= 16;
    }
    if (!has_moved) return x;
  }
  return x;
}

}  // namespace troupe::hardware
