// Creates tensors with known bytes, and checks that a result succeeded, or that its error contains the expected words;
// shared by the tests of checkpoint/.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/math.hpp"
#include "formats/safetensors/writer.hpp"
#include "tests/check_ok.hpp"

namespace troupe::tests {

/// Returns bytes that depend on the seed and on their index.
inline std::vector<std::byte> noise(size_t bytes, uint64_t seed) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(core::mix64(seed * 1'000'003 + i));
  return out;
}

/// A tensor that owns its bytes.
struct owned_tensor {
  std::string name;
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data = {};

  owned_tensor(std::string n, core::dtype t, std::vector<int64_t> s)
      : name(std::move(n)), type(t), shape(std::move(s)) {
    data = noise(formats::bytes_of(type, shape).value(), std::hash<std::string>()(name));
  }
  [[nodiscard]] formats::tensor_to_write to_write() const { return {name, type, shape, data, {}}; }
};

inline std::vector<formats::tensor_to_write> all_to_write(const std::vector<owned_tensor>& tensors) {
  std::vector<formats::tensor_to_write> out;
  for (const auto& t : tensors) out.push_back(t.to_write());
  return out;
}

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

/// Returns the content of a safetensors file with this header text and this data.
inline std::string as_file(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

inline size_t files_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace troupe::tests
