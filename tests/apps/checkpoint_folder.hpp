// Creates a folder with checkpoints of a small model and runs `troupe checkpoint` in it; shared by the tests of that
// command.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/apps/topology.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/places.hpp"

namespace troupe::tests {

/// Configuration of a model type that Troupe does not know, so that two tensors are a complete model.
inline const std::string tiny_model = R"({"model_type":"tiny","n_embd":4,"vocab_size":6})";

/// A folder with the checkpoints ck/step-00000005 and ck/step-00000006 of a small model's embedding and norm.
struct checkpoints {
  scratch_folder folder;
  std::vector<sample_tensor> tensors;

  checkpoints() {
    for (const uint64_t step : {5U, 6U}) {
      tensors.clear();
      for (const char* name : {"transformer.ln_f.weight", "transformer.wte.weight"}) {
        const std::vector<int64_t> shape = name[12] == 'l' ? std::vector<int64_t>{4} : std::vector<int64_t>{6, 4};
        for (const char* moment : {"", "exp_avg", "exp_avg_sq"}) {
          const auto kind = *moment != 0 ? formats::tensor_kind::moment : formats::tensor_kind::master;
          std::vector<float> values(shape.size() == 1 ? 4 : 24);
          for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(step) + static_cast<float>(tensors.size() * 100 + i) / 64;
          const auto bytes = std::as_bytes(std::span(values));
          tensors.push_back({{name, kind, moment, core::dtype::f32, shape, {}}, {bytes.begin(), bytes.end()}});
        }
      }
      checkpoint::manifest m;
      m.run.applied_updates = step;
      m.run.model = tiny_model;
      m.run.config = smallest;
      m.run.parameter_order = {"transformer.wte.weight", "transformer.ln_f.weight"};
      check_ok(save_sample(storage::real_files(), folder / "ck", step, tensors, 2, std::move(m)));
    }
    folder.write("corpus.txt", "x");
    folder.write("job.json", R"({"train_batch_size": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}})");
  }

  finished troupe(std::vector<std::string> arguments, const std::function<void()>& prepare = {}) const {
    std::vector<std::string> command{troupe::places::troupe_binary, "checkpoint"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command, folder.path(), prepare);
  }
  void flip(const std::filesystem::path& file, std::streamoff at) const {
    std::fstream f(folder.path() / file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(at);
    const int byte = f.get();
    f.seekp(at);
    f.put(static_cast<char>(byte ^ 1));
  }
  /// Returns the names of all entries in the folder except those that the constructor wrote.
  [[nodiscard]] std::vector<std::string> written() const {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(folder.path()))
      if (const auto name = e.path().filename().string(); name != "ck" && name != "corpus.txt" && name != "job.json")
        out.push_back(name);
    std::sort(out.begin(), out.end());
    return out;
  }
  void check_refused(const std::vector<std::string>& arguments, int code, const std::string& part) const {
    const auto before = written();
    const auto r = troupe(arguments);
    BOOST_TEST(r.code == code, arguments.front() << " ended with " << r.code << ": " << r.err);
    BOOST_TEST(has(r.err, part), "no '" << part << "' in: " << r.err);
    BOOST_TEST(sentences_of(r.err) == 1U, r.err);
    BOOST_TEST(r.out == "");
    BOOST_TEST(written() == before, boost::test_tools::per_element());
  }
};

/// Writes the header of one tensor of `elements` fp16 elements and extends the file to its full length. The file is
/// sparse, so the elements occupy no disk space.
inline void write_sparse_safetensors(const std::filesystem::path& path, uint64_t elements) {
  std::string header =
      fmt::format(R"({{"w":{{"dtype":"F16","shape":[{}],"data_offsets":[0,{}]}}}})", elements, elements * 2);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string head(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(head.data(), &size, 8);
  std::ofstream(path, std::ios::binary) << head << header;
  std::filesystem::resize_file(path, 8 + header.size() + elements * 2);
}

}  // namespace troupe::tests
