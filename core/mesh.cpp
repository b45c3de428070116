#include "core/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::core {
namespace {

constexpr axis axis_at(uint32_t i) { return static_cast<axis>(i); }

}  // namespace

mesh::mesh(std::initializer_list<std::pair<axis, uint32_t>> degrees) {
  for (const auto& [a, n] : degrees) degrees_[static_cast<size_t>(a)] = n;
  for (uint32_t i = num_axes - 1; i-- > 0;) strides_[i] = strides_[i + 1] * degrees_[i + 1];
}

uint32_t mesh::size(axis_set along) const {
  uint32_t n = 1;
  for (uint32_t i = 0; i < num_axes; ++i)
    if (along.has(axis_at(i))) n *= degrees_[i];
  return n;
}

uint32_t mesh::rank_at(const coordinate& c) const {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < num_axes; ++i) rank = rank * degrees_[i] + c.at[i];
  return rank;
}

coordinate mesh::coordinate_of(uint32_t rank) const {
  coordinate out;
  for (uint32_t i = 0; i < num_axes; ++i) out.at[i] = coordinate_of(rank, axis_at(i));
  return out;
}

uint32_t mesh::position(uint32_t rank, axis_set along) const {
  uint32_t out = 0;
  for (uint32_t i = 0; i < num_axes; ++i)
    if (along.has(axis_at(i))) out = out * degrees_[i] + coordinate_of(rank, axis_at(i));
  return out;
}

std::vector<uint32_t> mesh::group_of(uint32_t rank, axis_set along) const {
  coordinate c = coordinate_of(rank);
  std::vector<uint32_t> out(size(along));
  for (uint32_t k = 0; k < out.size(); ++k) {
    uint32_t left = k;
    for (uint32_t i = num_axes; i-- > 0;) {
      if (!along.has(axis_at(i))) continue;
      c.at[i] = left % degrees_[i];
      left /= degrees_[i];
    }
    out[k] = rank_at(c);
  }
  return out;
}

std::vector<std::vector<uint32_t>> mesh::groups(axis_set along) const {
  std::vector<std::vector<uint32_t>> out;
  for (uint32_t r = 0; r < ranks(); ++r)
    if (position(r, along) == 0) out.push_back(group_of(r, along));
  return out;
}

std::vector<uint32_t> mesh::matching(std::initializer_list<std::pair<axis, uint32_t>> coordinates) const {
  std::vector<uint32_t> out;
  for (uint32_t r = 0; r < ranks(); ++r) {
    const coordinate c = coordinate_of(r);
    if (std::ranges::all_of(coordinates, [&](const auto& wanted) { return c.of(wanted.first) == wanted.second; }))
      out.push_back(r);
  }
  return out;
}

uint32_t mesh::at_stage(uint32_t rank, uint32_t stage) const {
  coordinate c = coordinate_of(rank);
  c[axis::pipeline] = stage;
  return rank_at(c);
}

std::vector<std::pair<uint32_t, uint32_t>> mesh::neighbours() const {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  const uint32_t stages = degree(axis::pipeline);
  for (uint32_t r = 0; r < ranks(); ++r)
    out.emplace_back(r, at_stage(r, (coordinate_of(r, axis::pipeline) + 1) % stages));
  return out;
}

std::string mesh::text() const {
  std::string out;
  for (uint32_t i = 0; i < num_axes; ++i) {
    if (degrees_[i] == 1) continue;
    if (!out.empty()) out += " x ";
    out.append(name_of(axis_at(i))).append(" ").append(fmt::to_string(degrees_[i]));
  }
  return out.empty() ? "1 rank" : out;
}

std::string mesh::text_of(uint32_t rank) const {
  std::string out;
  const coordinate c = coordinate_of(rank);
  for (uint32_t i = 0; i < num_axes; ++i) {
    if (degrees_[i] == 1) continue;
    if (!out.empty()) out += ", ";
    out.append(name_of(axis_at(i))).append(" ").append(fmt::to_string(c.at[i]));
  }
  return out;
}

}  // namespace troupe::core
