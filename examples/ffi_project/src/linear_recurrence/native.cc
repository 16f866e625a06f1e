// y[t] = decay[t] * y[t-1] + x[t] along the last dimension, for each row of the leading ones.
#include <algorithm>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// One row; `step` is 1, or -1 from the last element to the first.
template <typename T>
static void Row(const T* decay, const T* x, T* y, int64_t n, int64_t begin, int64_t step) {
  T state = 0;
  for (int64_t i = 0, t = begin; i < n; ++i, t += step) y[t] = state = decay[t] * state + x[t];
}

template <typename T>
static ffi::Error Rows(const ffi::AnyBuffer& decay, const ffi::AnyBuffer& x, ffi::AnyBuffer& y, bool reverse) {
  int64_t n = x.dimensions().back(), rows = n == 0 ? 0 : x.element_count() / n;
  for (int64_t row = 0; row < rows; ++row)
    Row(decay.typed_data<T>() + row * n, x.typed_data<T>() + row * n, y.typed_data<T>() + row * n, n,
        reverse ? n - 1 : 0, reverse ? -1 : 1);
  return ffi::Error::Success();
}

static bool HaveOneShape(const ffi::AnyBuffer& a, const ffi::AnyBuffer& b) {
  auto of_a = a.dimensions(), of_b = b.dimensions();
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end());
}

static ffi::Error Recurrence(bool reverse, ffi::AnyBuffer decay, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  // What Python checks before is checked again: other callers may come, and memory has no types.
  if (x.dimensions().size() == 0 || !HaveOneShape(decay, x) || !HaveOneShape(*y, x))
    return ffi::Error::InvalidArgument("linear_recurrence takes two arrays of one shape, with a dimension for time");
  if (decay.element_type() != x.element_type() || y->element_type() != x.element_type())
    return ffi::Error::InvalidArgument("linear_recurrence takes two arrays of one dtype");
  switch (x.element_type()) {
    case ffi::F32: return Rows<float>(decay, x, *y, reverse);
    case ffi::F64: return Rows<double>(decay, x, *y, reverse);
    default: return ffi::Error::InvalidArgument("linear_recurrence takes float32 or float64");
  }
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RecurrenceHandler, Recurrence,
    ffi::Ffi::Bind().Attr<bool>("reverse").Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());
