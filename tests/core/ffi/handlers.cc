// Handlers that the tests call: each states its operands, results and attributes in its binding.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using F32Result = ffi::ResultBuffer<ffi::F32>;

// Divides each row by its root of mean squares; counts the rows of one call in `*rows`.
static ffi::Error NormalizeImpl(float eps, F32 x, F32Result y, F32Result norms) {
  auto dims = x.dimensions();
  if (dims.size() == 0) return ffi::Error::InvalidArgument("normalize needs a row");
  int64_t n = dims.back(), rows = x.element_count() / n;
  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x.typed_data() + row * n;
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += in[i] * in[i];
    float norm = std::sqrt(total / n + eps);
    norms->typed_data()[row] = norm;
    for (int64_t i = 0; i < n; ++i) y->typed_data()[row * n + i] = in[i] / norm;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Normalize, NormalizeImpl,
    ffi::Ffi::Bind().Attr<float>("eps").Arg<F32>().Ret<F32>().Ret<F32>());

// The sum of all attributes, of each type that there is.
static ffi::Error AttributesImpl(bool flag, int32_t i32, int64_t i64, double f64, std::string_view text,
                                 ffi::Span<const int64_t> numbers, ffi::Dictionary more, F32Result y) {
  double total = (flag ? 1 : 0) + i32 + i64 + f64 + text.size();
  for (int64_t number : numbers) total += number;
  auto inner = more.get<float>("inner");
  if (inner.has_error()) return inner.error();
  y->typed_data()[0] = total + *inner;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Attributes, AttributesImpl,
    ffi::Ffi::Bind().Attr<bool>("flag").Attr<int32_t>("i32").Attr<int64_t>("i64").Attr<double>("f64")
        .Attr<std::string_view>("text").Attr<ffi::Span<const int64_t>>("numbers")
        .Attr<ffi::Dictionary>("more").Ret<F32>());

// Adds 1 in place: 1 in the second result says that the memory is the operand's.
static ffi::Error InPlaceImpl(F32 x, F32Result y, F32Result shares) {
  shares->typed_data()[0] = x.typed_data() == y->typed_data() ? 1 : 0;
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(InPlace, InPlaceImpl,
    ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Ret<F32>());

// Elements in the order in which they lie in memory.
static ffi::Error InMemoryImpl(F32 x, F32Result y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(InMemory, InMemoryImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

// x + y, of operands whose leading axis may have size 1 or be left out; the number of elements of y in each result.
static ffi::Error SizesImpl(F32 x, F32 y, F32Result sizes) {
  for (size_t i = 0; i < sizes->element_count(); ++i)
    sizes->typed_data()[i] = 100 * x.element_count() + y.element_count();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Sizes, SizesImpl, ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Ret<F32>());

static std::atomic<int64_t> calls{0};
extern "C" int64_t CountedCalls() { return calls.load(); }
static ffi::Error CountImpl(F32 x) { calls += x.element_count(); return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(Count, CountImpl, ffi::Ffi::Bind().Arg<F32>());

// A number that an instance of the call keeps from one run to the next.
struct Runs { static ffi::TypeId id; int64_t count = 0; };
ffi::TypeId Runs::id = {};
extern "C" void* RunsTypeId() { return &Runs::id; }
static ffi::TypeInfo runs_info = ffi::MakeTypeInfo<Runs>();
extern "C" void* RunsTypeInfo() { return &runs_info; }
static ffi::ErrorOr<std::unique_ptr<Runs>> MakeRunsImpl() { return std::make_unique<Runs>(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(MakeRuns, MakeRunsImpl, ffi::Ffi::BindInstantiate());
static ffi::Error RunImpl(Runs* runs, F32Result y) {
  y->typed_data()[0] = ++runs->count;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Run, RunImpl, ffi::Ffi::Bind().Ctx<ffi::State<Runs>>().Ret<F32>());

// The older interface: operands and results as pointers, the configuration as text.
extern "C" void Older(void* out, const void** in, const char* opaque, size_t length) {
  *static_cast<float*>(out) = *static_cast<const float*>(in[0]) + length;
}
