/* SPDX-License-Identifier: GPL-2.0-only
 *
 * LibDAQ 3's module interface: its own headers where they are installed, else daq3.h. */
#ifdef BURST_HAS_DAQ3
#include <daq_module_api.h>
#else
#include "daq3.h"
#endif
