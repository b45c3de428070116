// Converts tokens to text by the key `decoder` of a tokenizer.json.
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

  /// Joins the texts of tokens to one text. Bytes that are not UTF-8 stay (ByteLevel), so that parts of a token list
  /// decode to parts of the text's bytes.
  [[nodiscard]] std::string text_of(std::vector<std::string> tokens) const;

 private:
  core::result<void> add(const nlohmann::json& keys, uint32_t depth);

  std::vector<step> steps_;
  bool has_decoder_ = false;  ///< false: tokenizer.json has no decoder, and spaces are put between tokens
};

}  // namespace troupe::data
