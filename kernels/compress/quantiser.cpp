#include "kernels/compress/quantiser.hpp"

#include <fmt/format.h>

namespace troupe::kernels {

core::result<quantiser> weight_quantiser(uint32_t bits, bool symmetric) {
  if (bits == 0 || bits > max_quantiser_bits)
    return fail(error_kind::bad_input, fmt::format("weights: wanted 1 to {} bits, got {}", max_quantiser_bits, bits));
  if (bits < 3 && !symmetric)
    return fail(
        error_kind::bad_input,
        fmt::format("weights: {} bits are {}, which is symmetric: wanted symmetric or 3 to {} bits, got asymmetric",
                    bits, bits == 2 ? "ternary" : "binary", max_quantiser_bits));
  if (bits < 3) return quantiser{bits == 2 ? quantiser_kind::ternary : quantiser_kind::binary, bits};
  return quantiser{symmetric ? quantiser_kind::symmetric : quantiser_kind::asymmetric, bits};
}

core::result<quantiser> activation_quantiser(uint32_t bits, bool symmetric) {
  if (bits != 4 && bits != 8)
    return fail(error_kind::bad_input, fmt::format("activations: wanted 4 or 8 bits, got {}", bits));
  return quantiser{symmetric ? quantiser_kind::symmetric : quantiser_kind::asymmetric, bits};
}

core::result<uint64_t> elements_of_group(uint64_t elements, uint64_t groups) {
  if (groups == 0 || elements % groups != 0)
    return fail(error_kind::bad_input, fmt::format("{} elements cannot be divided into {} groups", elements, groups));
  return elements / groups;
}

void follow(activation_range& range, const value_range<double>& seen, float momentum) {
  const auto least = static_cast<float>(seen.least), largest = static_cast<float>(seen.largest);
  if (range.least == range.largest) range = {least, largest};
  const auto share = static_cast<float>(1 - static_cast<double>(momentum));
  range.least = range.least * momentum + least * share;
  range.largest = range.largest * momentum + largest * share;
}

}  // namespace troupe::kernels
