// Reads bytes of a file written by torch.save, for tests that compare them.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <vector>

#include "formats/torch/archive.hpp"

namespace troupe::tests {

inline std::vector<std::byte> bytes_at(const formats::torch_archive& file, uint64_t offset, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  const auto ok = file.read(offset, out);
  BOOST_REQUIRE_MESSAGE(ok.has_value(), (ok ? std::string() : ok.error().text));
  return out;
}

}  // namespace troupe::tests
