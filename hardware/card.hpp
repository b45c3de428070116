// Defines an accelerator card and the links of its node and network, as data sheets state them.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::hardware {

/// Value of a constant that a file does not state.
inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

/// Rates of one GPU, in one direction.
struct card {
  std::string name;                  ///< name of the card's file
  std::vector<std::string> named;    ///< names of the card in tables of measurements
  double peak_flops_per_s = absent;  ///< dense 16-bit products
  double memory_bytes_per_s = absent;
  double memory_bytes = absent;
  double nvlink_bytes_per_s = absent;   ///< absent: the card has no such link
  double network_bytes_per_s = absent;  ///< between nodes, one GPU's share
  double node_gpus = absent;
  double sms = absent;  ///< streaming multiprocessors
};

/// A rate or size of a card, as its file states it.
struct card_row {
  std::string_view name, unit;
  double card::*field;
  bool needed;  ///< every price depends on it
};

std::span<const card_row> card_rows();

}  // namespace troupe::hardware
