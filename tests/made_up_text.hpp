// Generates a text for tests to train on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe::tests {

/// Returns a pseudo-random text of `bytes` characters, with `letters` different characters from 'A' on.
inline std::string made_up_text(size_t bytes, uint32_t letters = 26) {
  std::string out;
  uint32_t x = 12345;
  while (out.size() < bytes) {
    x = x * 1664525U + 1013904223U;
    out += static_cast<char>('A' + (x >> 16) % letters);
    // Repeats the second last character, so that a model can learn something.
    if (out.size() % 3 == 0) out += out[out.size() - 2];
  }
  out.resize(bytes);
  return out;
}

}  // namespace troupe::tests
