#include "models/table/teacher.hpp"

#include <algorithm>
#include <utility>

namespace troupe::models {
namespace {

void move_by(uint32_t parameters, std::vector<uint32_t>& all) {
  for (uint32_t& q : all) q += parameters;
}

/// Returns the teacher's layer `l` as a row of the joint table: its parameters follow `parameters` others, and it
/// belongs to the given unit and segment.
core::layer_info moved(core::layer_info l, uint32_t parameters, uint32_t unit, uint32_t segment) {
  l.name = teacher_prefix + l.name;
  move_by(parameters, l.parameters);
  if (l.weight) *l.weight += parameters;
  if (l.bias) *l.bias += parameters;
  l.unit = unit;
  l.segment = segment;
  l.product_flops = 0;  // the costs of a teacher are those of a forward
  return l;
}

/// Makes embedding and head of the student frozen and free of cost, for training in which each block learns separately
/// and the two are not used.
void keep_ends(uint32_t first, core::model_table& table) {
  for (core::unit_info* end : {&table.units[first], &table.units.back()}) {
    for (const uint32_t q : end->parameters) table.parameters[q].trainable = false;
    for (core::segment_info& s : end->segments) {
      s.forward_flops = s.left_flops = s.weight_flops = s.frozen_flops = s.frozen_weight_flops = 0;
      s.saved_bytes = s.weight_bytes = s.tile_bytes = 0;
    }
  }
  for (core::layer_info& l : table.layers)
    if (l.unit == first || l.unit + 1 == table.units.size()) l.product_flops = 0;
}

/// Returns a teacher's unit as a row of the joint table: with the costs of a forward only, and its parameters numbered
/// after `parameters` others.
core::unit_info forward_only(core::unit_info unit, uint32_t parameters) {
  unit.name = "teacher " + unit.name;
  move_by(parameters, unit.parameters);
  for (core::segment_info& s : unit.segments) {
    move_by(parameters, s.parameters);
    s.weight_bytes = 0;
    s.weight_flops = s.frozen_flops = s.frozen_weight_flops = 0;
    s.light = {};
  }
  return unit;
}

}  // namespace

std::vector<unit_pair> hidden_pairs(uint32_t layers, uint32_t teacher_layers,
                                    const std::vector<uint64_t>& teacher_layer) {
  // Hidden state 0 is the embedding's output; hidden state h is the output of block h - 1, which is unit number h.
  std::vector<unit_pair> out;
  for (uint32_t unit = 0; unit <= layers; ++unit) {
    if (teacher_layer.empty())
      out.push_back({unit, unit * (teacher_layers / layers)});
    else if (unit == 0)
      out.push_back({0, static_cast<uint32_t>(teacher_layer.front() - 1)});
    else
      out.push_back({unit, static_cast<uint32_t>(teacher_layer[unit - 1] + 1)});
  }
  return out;
}

std::vector<unit_pair> map_pairs(uint32_t layers, uint32_t teacher_layers, const std::vector<uint64_t>& teacher_layer) {
  std::vector<unit_pair> out;
  for (uint32_t unit = 1; unit <= layers; ++unit)
    out.push_back({unit, teacher_layer.empty() ? unit * (teacher_layers / layers)
                                               : static_cast<uint32_t>(teacher_layer[unit - 1] + 1)});
  return out;
}

std::vector<block_pair> block_pairs(uint32_t layers, uint32_t teacher_layers,
                                    const std::vector<uint64_t>& teacher_layer) {
  std::vector<block_pair> out;
  for (const unit_pair& x : map_pairs(layers, teacher_layers, teacher_layer)) {
    const uint32_t each = teacher_layer.empty() ? teacher_layers / layers : 1;
    out.push_back({x.unit, x.of_teacher + 1 - each, x.of_teacher});
  }
  return out;
}

std::vector<uint32_t> units_beside(const teaching& by, uint32_t layers) {
  const uint32_t of_teacher = by.teacher.layers;
  std::vector<uint32_t> out(of_teacher + 1, 0);
  // If hidden states and maps are both compared, `hidden` and `maps` pair the same blocks.
  std::vector<unit_pair> pairs = by.hidden.empty() ? by.maps : by.hidden;
  for (const block_pair& x : by.blocks) pairs.push_back({x.unit, x.last});
  if (pairs.empty()) {
    for (uint32_t t = 1; t <= of_teacher; ++t) out[t] = (t * layers + of_teacher - 1) / of_teacher;
    return out;
  }
  for (size_t i = 1; i < pairs.size(); ++i)
    if (pairs[i].of_teacher <= pairs[i - 1].of_teacher) return {};
  size_t next = 0;
  for (uint32_t t = by.hidden.empty() ? 1 : 0; t <= of_teacher; ++t) {
    while (next + 1 < pairs.size() && pairs[next].of_teacher < t) ++next;
    out[t] = pairs[next].unit;
  }
  return out;
}

core::model_table with_teacher(core::model_table model, const teaching& by, uint64_t rows, uint64_t columns,
                               uint64_t element_bytes, const tensor_split& split, const sequence_split& sequence) {
  core::model_table teacher = make_model_table(by.teacher, rows, columns, element_bytes, split, sequence);
  const auto own = static_cast<uint32_t>(model.parameters.size());
  const core::unit_info last = teacher.units.back();
  teacher.units.pop_back();
  const auto behind = static_cast<uint32_t>(teacher.units.size());
  core::model_table out;
  out.teacher_units = behind;
  out.teacher_bytes = last.input_bytes;
  out.beside = units_beside(by, static_cast<uint32_t>(model.units.size()) - 2);
  for (uint32_t& u : out.beside) u += behind;
  out.parameters = std::move(model.parameters);
  for (core::parameter_info& p : teacher.parameters) {
    p.name = teacher_prefix + p.name;
    p.trainable = false;
    p.of_teacher = true;
    out.parameters.push_back(std::move(p));
  }
  for (core::unit_info& u : teacher.units) out.units.push_back(forward_only(std::move(u), own));
  for (core::unit_info& u : model.units) out.units.push_back(std::move(u));
  // Bytes kept from forward to backward: for hidden states the difference of the two; for attention maps the teacher's
  // map and a gradient of queries, keys and values. While that gradient is computed, also the student's map and tensors
  // made from it.
  for (const unit_pair& x : by.hidden)
    out.units[behind + x.unit].segments.back().saved_bytes += out.units[behind + x.unit + 1].input_bytes;
  const uint64_t wide_bytes = std::max<uint64_t>(element_bytes, sizeof(float));
  const uint64_t map_bytes = rows * by.teacher.heads * columns * columns * wide_bytes;
  for (const unit_pair& x : by.maps) {
    core::segment_info& attention = out.units[behind + x.unit].segments.front();
    attention.saved_bytes += map_bytes + attention.saved_bytes;
    attention.tile_bytes += 3 * map_bytes;
    attention.light = {};
  }
  // A block that learns separately keeps the input and the output of its teacher's blocks.
  for (const block_pair& x : by.blocks)
    out.units[behind + x.unit].segments.back().saved_bytes += 2 * out.units[behind + x.unit].input_bytes;
  core::unit_info& head = out.units.back();
  core::segment_info& loss = head.segments.back();
  const core::segment_info& compared = last.segments.back();
  const auto take = [&](std::vector<uint32_t>& into, const std::vector<uint32_t>& more) {
    for (const uint32_t q : more) into.push_back(own + q);
  };
  take(head.parameters, last.parameters);
  take(loss.parameters, compared.parameters);
  loss.saved_bytes += last.input_bytes;  // the teacher's last hidden state is kept until backward
  loss.tile_bytes += compared.tile_bytes + last.input_bytes;
  loss.forward_flops += compared.forward_flops;
  loss.left_flops += compared.forward_flops;
  for (const core::layer_info& l : teacher.layers)
    if (l.unit < behind) out.layers.push_back(moved(l, own, l.unit, l.segment));
  for (core::layer_info& l : model.layers) {
    l.unit += behind;
    out.layers.push_back(std::move(l));
  }
  if (!by.blocks.empty()) keep_ends(behind, out);
  const auto unit = static_cast<uint32_t>(out.units.size()) - 1,
             segment = static_cast<uint32_t>(head.segments.size()) - 1;
  for (const core::layer_info& l : teacher.layers)
    if (l.unit == behind) out.layers.push_back(moved(l, own, unit, segment));
  return out;
}

core::model_table without_teacher(core::model_table table) {
  std::erase_if(table.parameters, [](const core::parameter_info& p) { return p.of_teacher; });
  return table;
}

}  // namespace troupe::models
