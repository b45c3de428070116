#include "apps/python/tensor_types.hpp"

#include <cstdint>

namespace troupe::apps {

namespace nb = nanobind;

nb::dlpack::dtype dlpack_type(core::dtype t) {
  using nb::dlpack::dtype_code;
  const auto bits = static_cast<uint8_t>(8 * core::size_of(t));
  const auto of = [&](dtype_code code) { return nb::dlpack::dtype{static_cast<uint8_t>(code), bits, 1}; };
  switch (t) {
    case core::dtype::f64:
    case core::dtype::f32:
    case core::dtype::f16:
      return of(dtype_code::Float);
    case core::dtype::bf16:
      return of(dtype_code::Bfloat);
    case core::dtype::u8:
      return of(dtype_code::UInt);
    case core::dtype::boolean:
      return of(dtype_code::Bool);
    default:
      return of(dtype_code::Int);
  }
}

const char* type_name(core::dtype t) {
  switch (t) {
    case core::dtype::f64:
      return "float64";
    case core::dtype::f32:
      return "float32";
    case core::dtype::bf16:
      return "bfloat16";
    case core::dtype::f16:
      return "float16";
    default:
      return core::name_of(t).data();
  }
}

}  // namespace troupe::apps
