// Owns the functions of a Python session that read and change weights, moments, gradients and optimizer groups. Leaves
// the names and forms that Python shows to python/troupe/training.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/session/state_access.hpp"
#include "apps/python/training/python_session.hpp"
#include "apps/python/training/python_values.hpp"

namespace troupe::apps {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

std::vector<int64_t> shape_of(python_session& s, const std::string& name) {
  const auto& all = s.work.session().table().parameters;
  const auto at = std::ranges::find_if(all, [&](const auto& p) { return !p.is_copy() && p.name == name; });
  return at == all.end() ? std::vector<int64_t>() : at->shape;
}

nb::tuple weights(python_session& s, const std::string& name) {
  auto values = call(s, "Session.weights",
                     [&](training_session& t, const auto&) { return t.session().states().get_full_fp32_param(name); });
  return tensor_of(std::move(values), shape_of(s, name));
}

nb::tuple gradient(python_session& s, const std::string& name) {
  auto values = call(s, "Session.gradient",
                     [&](training_session& t, const auto&) { return t.session().states().get_full_grad(name); });
  return tensor_of(std::move(values), shape_of(s, name));
}

nb::tuple moment(python_session& s, const std::string& name, const std::string& key) {
  auto values = call(s, "Session.moment", [&](training_session& t, const auto&) {
    return t.session().states().get_full_optimizer_state(name, key);
  });
  return tensor_of(std::move(values), shape_of(s, name));
}

/// Returns the memory of a rank's elements of a parameter, or of its optimizer state `key`, and the first element.
nb::tuple view(python_session& s, const std::string& name, const std::optional<std::string>& key, uint32_t rank) {
  auto seen = call(s, "Session.view", [&](training_session& t, const auto&) {
    const auto states = t.session().states();
    return key ? states.view_local_optimizer_state(rank, name, *key) : states.view_local_param(rank, name);
  });
  std::vector<int64_t> shape = shape_of(s, name);
  int64_t elements = 1;
  for (const int64_t n : shape) elements *= n;
  // A part of a parameter has the order of its elements alone.
  if (std::cmp_not_equal(elements, seen.elements.count)) shape.assign(1, static_cast<int64_t>(seen.elements.count));
  return nb::make_tuple(view_of(seen, shape), seen.elements.first);
}

void set_weights(python_session& s, const std::string& name, const nb::object& given) {
  const auto held = floats_in("Session.set_weights", given);
  call(s, "Session.set_weights", [&](training_session& t, const auto&) {
    return t.session().states().set_full_fp32_param(name, std::span<const float>(held.data(), held.size()));
  });
}

void set_moment(python_session& s, const std::string& name, const std::string& key, const nb::object& given) {
  const auto held = floats_in("Session.set_moment", given);
  call(s, "Session.set_moment", [&](training_session& t, const auto&) {
    return t.session().states().set_full_optimizer_state(name, key, std::span<const float>(held.data(), held.size()));
  });
}

/// Returns (name, learning rate, weight decay, number of elements) of each optimizer group.
nb::list groups(python_session& s) {
  const call_scope held(s, "Session.groups");
  nb::list out;
  for (const auto& g : s.work.session().groups())
    out.append(nb::make_tuple(text_of(g.name), g.learning_rate, g.weight_decay, g.parameters));
  return out;
}

void set_learning_rate(python_session& s, uint32_t group, double rate) {
  call(s, "Session.set_learning_rate",
       [&](training_session& t, const auto&) { return t.session().set_learning_rate(group, rate); });
}

void set_weight_decay(python_session& s, uint32_t group, double weight_decay) {
  call(s, "Session.set_weight_decay",
       [&](training_session& t, const auto&) { return t.session().set_weight_decay(group, weight_decay); });
}

}  // namespace

void add_states(session_class& c) {
  c.def("weights", weights, "name"_a)
      .def("gradient", gradient, "name"_a)
      .def("moment", moment, "name"_a, "key"_a)
      .def("view", view, "name"_a, "key"_a.none(), "rank"_a)
      .def("set_weights", set_weights, "name"_a, "values"_a)
      .def("set_moment", set_moment, "name"_a, "key"_a, "values"_a)
      .def("groups", groups)
      .def("set_learning_rate", set_learning_rate, "group"_a, "rate"_a)
      .def("set_weight_decay", set_weight_decay, "group"_a, "weight_decay"_a);
}

}  // namespace troupe::apps
