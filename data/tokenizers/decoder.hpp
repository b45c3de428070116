// Makes a text of tokens as the key `decoder` of a tokenizer.json says.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// The steps of a decoder, each of which changes the texts of tokens.
class decoder {
 public:
  struct step;

  decoder();
  decoder(decoder&&) noexcept;
  decoder& operator=(decoder&&) noexcept;
  ~decoder();

  /// Reads the steps. Refused: a step, key or pattern that is not known, with its name.
  static core::result<decoder> make(const nlohmann::json& keys);

  /// Returns the text of tokens with these texts. Bytes that are not UTF-8 stay (ByteLevel): parts of a text decode to
  /// parts of its bytes.
  [[nodiscard]] std::string text_of(std::vector<std::string> tokens) const;

 private:
  core::result<void> add(const nlohmann::json& keys, uint32_t depth);

  std::vector<step> steps_;
  bool has_decoder_ = false;  ///< false: spaces are put between tokens
};

}  // namespace troupe::data
