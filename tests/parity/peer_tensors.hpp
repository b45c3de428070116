// Compares tensors of a run with those of PyTorch that tests/peer/make_loop_fixtures.py describes by three numbers.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/places.hpp"

namespace troupe::tests {

/// Returns a fixture of tests/parity/fixtures.
inline nlohmann::json parity_fixture(const std::string& name) {
  std::ifstream file(std::string(places::source_dir) + "/tests/parity/fixtures/" + name);
  return nlohmann::json::parse(file);
}

/// Returns the model of the loops that make_loop_fixtures.py runs, as a line of a job file.
inline std::string model_of_loops() {
  return "model: {path: " + std::string(places::source_dir) + "/tests/models/fixtures/gpt2}\n";
}

/// Checks that `values` have the described sum, norm, and sum with the factors i % 7 - 3 for the elements i, up to
/// `bound` times the norm.
template <class T>
void check_described(const std::vector<T>& values, const nlohmann::json& described, const std::string& name,
                     double bound) {
  double sum = 0, square = 0, mixed = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<double>(values[i]);
    sum += x;
    square += x * x;
    mixed += (static_cast<double>(i % 7) - 3) * x;
  }
  const auto wanted = described.get<std::vector<double>>();
  BOOST_TEST_REQUIRE(wanted.size() == 3U);
  const double most = bound * wanted[1];
  BOOST_TEST(std::abs(sum - wanted[0]) <= most, name << ": sum " << sum << " for " << wanted[0]);
  BOOST_TEST(std::abs(std::sqrt(square) - wanted[1]) <= most,
             name << ": norm " << std::sqrt(square) << " for " << wanted[1]);
  BOOST_TEST(std::abs(mixed - wanted[2]) <= most, name << ": " << mixed << " for " << wanted[2]);
}

}  // namespace troupe::tests
