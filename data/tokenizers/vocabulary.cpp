#include "data/tokenizers/vocabulary.hpp"

#include "data/tokenizers/text/byte_alphabet.hpp"

namespace troupe::data {

vocabulary byte_vocabulary() {
  const byte_alphabet alphabet;
  vocabulary out;
  for (uint32_t b = 0; b < 256; ++b) out.entries.push_back({alphabet.word_of(b), token_kind::normal});
  return out;
}

}  // namespace troupe::data
