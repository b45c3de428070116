// Generates random checkpoints for tests of conversions: parameters of odd shapes with masters, moments and 16-bit
// weights, frozen parameters, buffers and tied names, in a file with gaps.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <numeric>
#include <random>

#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/torch/zip_reader.hpp"
#include "tests/formats/tensors.hpp"

namespace troupe::tests {

/// Returns all elements of a tensor, in its own type.
inline std::vector<std::byte> bytes_in(const formats::tensor_source& s, const formats::tensor_entry& t) {
  formats::source_reader reader(s);
  const uint64_t numel = core::numel_of(t.shape);
  std::vector<std::byte> out(numel * core::size_of(t.type));
  check_ok(reader.read(t, 0, numel, out));
  return out;
}

/// True if reading the tensor, of a file with changed bytes, delivers all bytes or is refused by a CRC-32.
inline bool is_read_or_refused(const formats::tensor_source& s, const formats::tensor_entry& t) {
  const uint64_t numel = core::numel_of(t.shape);
  std::vector<std::byte> out(numel * core::size_of(t.type));
  const auto ok = formats::source_reader(s).read(t, 0, numel, out);
  return ok || ok.error().text.find(formats::sum_differs) != std::string::npos;
}

/// Source whose tensors are stored in one file of `folder`. The first parameter, `layer.0.weight`, is a matrix. Weights
/// have the type `weight_type`; if that is fp32, the masters are the weights. Values are small multiples of 1/8, which
/// every floating type represents exactly.
class random_source {
 public:
  random_source(uint64_t seed, core::dtype weight_type, std::filesystem::path folder)
      : random_(seed), file_(folder / "data") {
    using core::dtype;
    using formats::tensor_kind;
    const size_t parameters = 1 + random_() % 7;
    for (size_t i = 0; i < parameters; ++i) {
      const auto name = fmt::format("layer.{}{}", i, i % 2 == 0 ? ".weight" : ".bias");
      auto shape = drawn_shape();
      if (i == 0) shape = {2 + static_cast<int64_t>(random_() % 8), 1 + static_cast<int64_t>(random_() % 9)};
      add(name, tensor_kind::master, "", dtype::f32, shape);
      for (const char* moment : {"exp_avg", "exp_avg_sq"}) add(name, tensor_kind::moment, moment, dtype::f32, shape);
      if (weight_type != dtype::f32) add(name, tensor_kind::weight, "", weight_type, shape);
      source.parameter_order.push_back(name);
      if (random_() % 3 == 0) source.tied.push_back({name + ".again", name});
    }
    for (size_t i = 0; i < random_() % 3; ++i) {
      add(fmt::format("frozen.{}", i), tensor_kind::frozen, "", weight_type, drawn_shape());
      source.parameter_order.push_back(fmt::format("frozen.{}", i));
    }
    add("steps", tensor_kind::buffer, "", dtype::i64, {});
    add("mask", tensor_kind::buffer, "", dtype::boolean, {5});
    std::ranges::shuffle(source.parameter_order, random_);
    source.folder = folder;
    std::ofstream(file_, std::ios::binary).write(content_.data(), static_cast<std::streamsize>(content_.size()));
    source.files = {{file_, content_.size()}};
    source.run.steps = 12;
    source.run.applied_updates = 10;
    source.run.samples = 96;
    source.run.schedule_position = 10;
    check_ok(formats::complete(source));
  }

  formats::tensor_source source;

 private:
  std::vector<int64_t> drawn_shape() {
    std::vector<int64_t> shape(1 + random_() % 3);
    for (auto& n : shape) n = 1 + static_cast<int64_t>(random_() % 9);
    return shape;
  }

  void add(std::string name, formats::tensor_kind kind, std::string moment, core::dtype type,
           std::vector<int64_t> shape) {
    formats::tensor_entry entry{std::move(name), kind, std::move(moment), type, std::move(shape), {}};
    const uint64_t numel = core::numel_of(entry.shape), element = core::size_of(type);
    // The seed depends on the tensor's name only, so that a weight is its master weight, rounded.
    std::mt19937_64 values(std::hash<std::string>()(entry.name + entry.moment));
    for (uint64_t first = 0; first < numel;) {
      const uint64_t count = 1 + random_() % (numel - first);
      content_.resize(content_.size() + random_() % 5);
      entry.pieces.push_back({0, first, count, content_.size(), {}});
      for (uint64_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(static_cast<int>(values() % 256) - 128) / 8.0F;
        char bytes[8] = {static_cast<char>(values() % 2)};
        if (formats::is_floating(type))
          formats::cast_elements(core::dtype::f32, reinterpret_cast<const std::byte*>(&value), type,
                                 reinterpret_cast<std::byte*>(bytes), 1);
        content_.append(bytes, element);
      }
      first += count;
    }
    source.tensors.push_back(std::move(entry));
  }

  std::mt19937_64 random_;
  std::filesystem::path file_;
  std::string content_;
};

}  // namespace troupe::tests
