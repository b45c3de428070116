// Tests the instructions of the CUDA kernels, read from the PTX that nvcc stores in their objects: no instruction may
// round differently from the CPU's operation (approximations, fused multiply-adds), because its results would not have
// the CPU's bits.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/places.hpp"
#include "tests/skipped.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(ptx)

namespace {

/// A rounding instruction that is allowed in one kernel although the CPU rounds differently.
struct exception {
  std::string_view kernel, instruction;  ///< part of the kernel's name; prefix of the instruction
  std::string_view reason;
};
constexpr std::string_view power_of_e = "power_of_e() of kernels/cuda/exponential.cuh asks for it, on the host too";
constexpr std::array exceptions = {exception{"row_powers_kernel", "fma.rn.f32", power_of_e},
                                   exception{"join_powers_kernel", "fma.rn.f32", power_of_e},
                                   exception{"loss_gradient_kernel", "fma.rn.f32", power_of_e}};

struct finding {
  std::string kernel, instruction;
};

/// Returns true for floating-point approximations, instructions that flush subnormals to 0, and fused multiply-adds.
bool rounds_otherwise(std::string_view instruction) {
  const auto has = [&](std::string_view part) { return instruction.find(part) != std::string_view::npos; };
  const bool is_fused =
      instruction.starts_with("fma.") || (instruction.starts_with("mad.") && (has(".f32") || has(".f64")));
  return is_fused || has(".approx") || has(".ftz") || has(".full.");
}

/// Returns the instruction's opcode without its predicate: the first word of the line, after `@p`.
std::string_view instruction_of(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (line.starts_with("@")) {
    line.remove_prefix(std::min(line.find_first_of(" \t"), line.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  }
  return line.substr(0, line.find_first_of(" \t;"));
}

/// Returns the name of the kernel or function that a line of PTX declares, or an empty text if it declares none.
std::string_view declared(std::string_view line) {
  const auto at = std::min(line.find(".entry "), line.find(".func "));
  if (at == std::string_view::npos || line.find('(') == std::string_view::npos) return {};
  line = line.substr(line.find(' ', at) + 1);
  // Skips the declaration of the return value.
  if (line.starts_with("(")) line.remove_prefix(std::min(line.find(')') + 2, line.size()));
  return line.substr(0, line.find('('));
}

struct listing {
  std::set<std::string> kernels;
  std::vector<finding> found;
};

void read(std::string_view ptx, listing& out) {
  std::string kernel;
  for (size_t at = 0; at < ptx.size();) {
    const size_t end = std::min(ptx.find('\n', at), ptx.size());
    const auto line = ptx.substr(at, end - at);
    at = end + 1;
    if (const auto name = declared(line); !name.empty()) {
      kernel = name;
      if (line.find(".entry ") != std::string_view::npos) out.kernels.insert(kernel);
    } else if (const auto word = instruction_of(line); rounds_otherwise(word)) {
      out.found.push_back({kernel, std::string(word)});
    }
  }
}

/// Returns all PTX texts in an object, for every architecture; each ends with a 0 byte in the object file.
listing of_object(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  listing out;
  for (size_t at = 0; (at = bytes.find("\n.version ", at)) != std::string::npos;) {
    const size_t end = std::min(bytes.find('\0', at), bytes.size());
    read(std::string_view(bytes).substr(at, end - at), out);
    at = end;
  }
  return out;
}

std::vector<std::string> objects() {
  std::vector<std::string> out;
  const std::string_view all = places::kernels_cuda_objects;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(';', at), all.size());
    out.emplace_back(all.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(instructions_that_round_otherwise_are_found_with_their_kernel) {
  listing got;
  read(
      ".version 9.0\n"
      ".visible .entry first(\n\t.param .u64 a\n)\n{\n"
      "\tmul.rn.f32 \t%f1, %f2, %f3;\n\tmad.lo.s32 \t%r1, %r2, %r3, %r4;\n\tdiv.rn.f32 \t%f1, %f2, %f3;\n"
      "\t@%p1 bra \t$L1;\n\tsqrt.rn.f32 \t%f1, %f2;\n}\n"
      ".visible .entry second(\n)\n{\n"
      "\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\n\t@%p1 ex2.approx.f32 \t%f1, %f2;\n\tadd.ftz.f32 \t%f1, %f2, %f3;\n"
      "\tdiv.full.f32 \t%f1, %f2, %f3;\n\tmad.rn.f64 \t%fd1, %fd2, %fd3, %fd4;\n}\n"
      ".func (.param .b32 out) third(\n)\n{\n\tmul.ftz.f32 %f1, %f2, %f3;\n}\n",
      got);
  BOOST_TEST(got.kernels == (std::set<std::string>{"first", "second"}), boost::test_tools::per_element());
  std::vector<std::string> found;
  for (const auto& f : got.found) found.push_back(f.kernel + " " + f.instruction);
  const std::vector<std::string> wanted = {"second fma.rn.f32",   "second ex2.approx.f32", "second add.ftz.f32",
                                           "second div.full.f32", "second mad.rn.f64",     "third mul.ftz.f32"};
  BOOST_TEST(found == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(no_twin_has_an_instruction_that_rounds_otherwise) {
  if (objects().empty()) return troupe::tests::say_skipped("PTX of the CUDA twins", "there is no nvcc");
  std::set<std::string_view> used;
  for (const auto& path : objects()) {
    const listing got = of_object(path);
    BOOST_TEST(!got.kernels.empty(), path << " has no PTX");
    for (const auto& f : got.found) {
      bool excepted = false;
      for (const auto& e : exceptions)
        if (f.kernel.find(e.kernel) != std::string::npos && f.instruction.starts_with(e.instruction)) {
          excepted = true;
          used.insert(e.kernel);
        }
      BOOST_TEST(excepted, path << ": " << f.kernel << " has " << f.instruction);
    }
  }
  for (const auto& e : exceptions) BOOST_TEST(used.contains(e.kernel), e.kernel << " needs no exception: " << e.reason);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
