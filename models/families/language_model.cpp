// Builds the model of a spec's family, after refusing specs that cannot run.
#include "models/families/language_model.hpp"

#include "models/families/family_model.hpp"

namespace troupe::models {

using core::error_kind;

core::result<std::unique_ptr<language_model>> make_language_model(const model_spec& spec, core::dtype type,
                                                                  uint64_t rows, uint64_t columns,
                                                                  device::device_id device, const model_place& place) {
  if (type != core::dtype::f32 && type != core::dtype::bf16 && type != core::dtype::f16 && type != core::dtype::f64)
    return core::fail(error_kind::bad_input,
                      "a model computes in fp32, bf16, fp16 or fp64, got " + std::string(core::name_of(type)));
  if (rows == 0 || columns == 0) return core::fail(error_kind::bad_input, "a micro-batch wants at least one token");
  if (columns > spec.positions)
    return core::fail(error_kind::bad_input, "the model has " + std::to_string(spec.positions) +
                                                 " positions, got sequences of " + std::to_string(columns));
  switch (spec.kind) {
    case family::gpt2:
      return make_gpt2(spec, type, rows, columns, place);
    case family::llama:
      return make_llama(spec, type, rows, columns, place, device);
  }
  return core::fail(error_kind::bug, "a model of no known family");
}

}  // namespace troupe::models
