// The header of programs that compress modules of their own: sessions that compress (init_compression), first values
// from deeper modules (student_initialization), the phases of a run (compression_scheduler), and smaller modules after
// the run (redundancy_clean).
#pragma once

#include "compression/compression_scheduler.hpp"
#include "compression/init_compression.hpp"
#include "compression/redundancy_clean.hpp"
#include "compression/student_initialization.hpp"
