// Decides which tokens of a text an encoder has to find, and which tokens replace them (Devlin et al. 2018,
// arXiv:1810.04805, section 3.1). Owns that choice, a function of the seed, the sample and the position alone: it does
// not depend on how a batch is cut, and a resumed run makes it again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Part of a source that a sample belongs to; the masks of the two parts are independent.
enum class data_part : uint8_t { training, validation };

struct masking_options {
  double probability = 0.15;  ///< probability with which a token is chosen, unless it is special
  /// Shares of the chosen tokens that the mask token, and that a random token, replaces; the others stay as they are.
  double mask = 0.8, random = 0.1;
  uint32_t mask_token = 0;
  uint64_t vocabulary = 0;             ///< number of tokens from which random ones are drawn
  std::vector<uint32_t> special = {};  ///< tokens that are never chosen nor drawn; the mask token is added
  uint64_t seed = 0;
};

/// Chooses tokens of samples. Two objects with equal options choose alike.
class masking {
 public:
  /// Returns the choice with these options. Errors (bad_input): shares that are no probabilities, or more than 1
  /// together; a mask token that is not in the vocabulary; a vocabulary of special tokens alone.
  static core::result<masking> make(masking_options options);

  /// Sets `targets` to the tokens of `inputs` that are chosen, and to core::no_target elsewhere, and replaces some of
  /// the chosen inputs. Both have a number for each position of sample `sample`. Returns the number of chosen tokens.
  uint64_t apply(data_part part, uint64_t sample, std::span<int64_t> inputs, std::span<int64_t> targets) const;
  /// Returns how many of the `inputs` of sample `sample` apply() chooses.
  [[nodiscard]] uint64_t count(data_part part, uint64_t sample, std::span<const int64_t> inputs) const;

  /// Returns the options that decide the choice; `special` is ascending, without repetitions, and has the mask token.
  [[nodiscard]] const masking_options& options() const { return options_; }

 private:
  explicit masking(masking_options options);
  [[nodiscard]] bool is_special(int64_t token) const;
  /// Returns the token that replaces a chosen one, from the random numbers of its position.
  [[nodiscard]] int64_t replacement(uint64_t numbers, int64_t token) const;

  masking_options options_;
  std::vector<bool> is_special_;  // [token]: it is special
  uint64_t limit_ = 0;            // a position is chosen if its random number, of 53 bits, is below this number
};

}  // namespace troupe::data
