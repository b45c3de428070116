// The types of elements of tensors as DLPack, numpy and torch name them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "core/dtype.hpp"

namespace troupe::apps {

nanobind::dlpack::dtype dlpack_type(core::dtype t);

/// Returns the name of the type `t` in numpy and torch.
const char* type_name(core::dtype t);

}  // namespace troupe::apps
