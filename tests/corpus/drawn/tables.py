"""What is drawn: for each area rows of (text, inputs, ways), with choices as `template` has them.

A text is an expression of its inputs, or lines that end in a `return`. Ways besides eagerly and under jit: `v` in a batch and
in a loop, `d` derivatives in both modes, `2` second ones, too, `e` the bits count, `w` the same in 64 bits.
"""

STEPS = "{a; a * b; lax.psum(a, 'x'); lax.pmean(a, 'x') * a; lax.all_gather(a, 'x').sum(0); lax.all_gather(a, 'x', tiled=True)[:2] * a[:2]; lax.ppermute(a, 'x', [(0, 1), (1, 2), (2, 3), (3, 0)]); lax.ppermute(a, 'x', [(0, 1), (2, 0)]); lax.psum_scatter(jnp.tile(a, (4, 1)), 'x', tiled=True); lax.all_to_all(a, 'x', 1, 1, tiled=True); a * lax.axis_index('x'); lax.pmax(lax.stop_gradient(a), 'x') * a; lax.psum(a * b, ('x', 'y')); jnp.sin(a) * lax.psum(b, 'y'); lax.cond(a[0, 0] > 0, jnp.sin, jnp.cos, a); lax.scan(lambda c, t: (c + lax.psum(t, 'x'), c), a[0], a)[1]; jax.checkpoint(lambda v: lax.psum(jnp.sin(v), 'x'))(a) * a; jax.vmap(lambda v: lax.pmean(v, 'y'))(a); lax.fori_loop(0, 2, lambda i, c: c * 0.5 + lax.pmean(c, 'x'), a); jax.grad(lambda v: (jnp.sin(v) * b).sum())(a)}"

AREAS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "special": (
        (
            "special.{gammaln; gamma; digamma; erf; erfc; erfinv; expit; logit; entr; i0; i0e; i1; i1e; ndtr; ndtri; log_ndtr; spence; expi; exp1; sinc}(x)",
            "x {float32; float32; float16; bfloat16}[12] {edges; around; normal; unit; wide; large; signed}",
            "v2",
        ),
        (
            "special.{gammaln; gamma; digamma; erf; erfc; erfinv; expit; logit; entr; i0; i0e; i1; i1e; ndtr; ndtri; log_ndtr; spence; expi; exp1}(x)",
            "x float32[9] {around; normal; unit; large; signed}",
            "vd2w",
        ),
        (
            "special.polygamma({0; 1; 2; 3}, x)",
            "x float32[8] {edges; positive; around; large}",
            "v2w",
        ),
        ("special.zeta({1.5; 2; 3.0; 7}, x)", "x float32[8] {positive; large; around}", "v"),
        (
            "special.{beta; betaln}(x, y)",
            "x float32[8] {positive; edges; around}, y float32[8] {positive; edges}",
            "vd2w",
        ),
        (
            "special.betainc(x, y, z)",
            "x float32[8] {positive; large; edges}, y float32[8] {positive; edges; small}, z float32[8] {unit; edges}",
            "vd",
        ),
        (
            "special.{gammainc; gammaincc}(x, y)",
            "x float32[8] {positive; large; edges; small}, y float32[8] {positive; large; edges; wide}",
            "vd2w",
        ),
        (
            "special.{xlogy; xlog1py; rel_entr; kl_div}(x, y)",
            "x float32[10] {edges; positive; zero; unit}, y float32[10] {edges; positive; unit}",
            "vd2",
        ),
        (
            "special.logsumexp(x, {axis=0; axis=1; axis=None; axis=(0, 1)}, {keepdims=True; keepdims=False})",
            "x float32[3,4] {edges; normal; large; nans}",
            "vd2",
        ),
        (
            "special.logsumexp(x, axis={0; 1}, b=y{; , return_sign=True})",
            "x float32[3,4] {normal; large; edges}, y float32[3,4] {normal; zero; ties}",
            "vd2",
        ),
        ("special.multigammaln(x, {1; 2; 3})", "x float32[5] {large; positive}", "vdw"),
        (
            "special.poch(x, y)",
            "x float32[6] {positive; around; small}, y float32[6] {unit; small}",
            "vd",
        ),
        (
            "special.hyp1f1(x, y, z)",
            "x float32[6] {positive; normal; small}, y float32[6] positive, z float32[6] {normal; unit; large}",
            "v",
        ),
        (
            "special.hyp2f1(x, y, 1.7, z)",
            "x float32[3] {unit; positive}, y float32[3] positive, z float32[3] {unit; signed}",
            "",
        ),
        ("special.{sici; fresnel}(x)", "x float32[8] {normal; edges; large}", "v"),
        ("special.{owens_t}(x, y)", "x float32[8] {normal; edges}, y float32[8] normal", "v"),
        ("special.log_softmax(x, axis={0; -1})", "x float32[3,4] {edges; normal; large}", "vd2"),
        ("special.factorial(x)", "x float32[6] {within; around; positive}", "vd"),
        ("special.bernoulli({0; 1; 2; 5; 8})", "x float32[2] normal", ""),
        (
            "special.sph_harm_y(x, y, jnp.abs(z), z, n_max=4)",
            "x int32[4] within, y int32[4] within, z float32[4] normal",
            "v",
        ),
        ("special.bessel_jn(x, v={0; 1; 3})", "x float32[5] {positive; normal}", "v"),
        (
            "lax.{lgamma; digamma; erf; erfc; erf_inv; bessel_i0e; bessel_i1e; lax_; exp2; log1p; expm1; cbrt; rsqrt; logistic; tan; asinh; acosh; atanh; tanh; sinh; cosh}(x)",
            "x {float32; bfloat16; float16}[12] {edges; around; normal; signed; wide}",
            "v2",
        ),
        (
            "lax.{igamma; igammac; random_gamma_grad; polygamma; zeta}(x, y)",
            "x float32[8] {positive; large; edges}, y float32[8] {positive; large; edges}",
            "v",
        ),
        (
            "stats.{norm; cauchy; laplace; logistic; expon; gumbel_r; uniform}.{pdf; logpdf; cdf; logcdf; ppf}(x)",
            "x float32[8] {normal; unit; edges}",
            "vd2",
        ),
        (
            "stats.{norm; cauchy; laplace; logistic}.{sf; logsf; isf}(x)",
            "x float32[8] {normal; unit}",
            "vd2",
        ),
        (
            "stats.{beta.logpdf; beta.cdf; beta.pdf; t.logpdf; t.pdf; gamma.logpdf; gamma.cdf; gamma.sf; pareto.logpdf; chi2.logpdf; chi2.cdf; gennorm.logpdf; vonmises.logpdf; wrapcauchy.logpdf}(z, x{s = ; , y})",
            "x float32[6] {positive; unit}, y float32[6] positive, z float32[6] {unit; positive}",
            "vd",
        ),
        (
            "stats.{poisson.logpmf; poisson.pmf; poisson.cdf; geom.pmf; bernoulli.logpmf}(x, y)",
            "x int32[6] counts, y float32[6] unit",
            "v",
        ),
        (
            "stats.{binom.logpmf; nbinom.logpmf}(x, 7, y)",
            "x int32[6] counts, y float32[6] unit",
            "v",
        ),
        (
            "stats.multivariate_normal.{logpdf; pdf}(x, y, z)",
            "x float32[3] normal, y float32[3] normal, z float32[3,3] spd",
            "v",
        ),
        (
            "stats.{rankdata}(x, {'average'; 'min'; 'max'; 'dense'; 'ordinal'})",
            "x float32[8] {ties; normal; nans}",
            "v",
        ),
        (
            "stats.{mode}(x, axis={0; 1; None}{; , keepdims=True})",
            "x {int32; float32}[3,6] ties",
            "",
        ),
        ("stats.sem(x, axis={0; None}, ddof={0; 1})", "x float32[4,3] normal", "vd"),
        (
            "stats.gaussian_kde(x).{evaluate; logpdf}(y)",
            "x float32[9] normal, y float32[4] normal",
            "d",
        ),
    ),
    "random": (
        (
            "random.{uniform; normal; bits; exponential; gumbel; laplace; logistic; cauchy; rademacher; rayleigh; maxwell}(random.key(x), (5,))",
            "x uint32[] seed",
            "ve",
        ),
        (
            "random.{uniform; normal; exponential; gumbel; laplace; logistic}(random.key(x, impl={'threefry2x32'; 'rbg'; 'unsafe_rbg'}), {(3, 2)}, dtype={jnp.float16; jnp.bfloat16; jnp.float32})",
            "x uint32[] seed",
            "e",
        ),
        (
            "random.uniform(random.key(x), (4,), {jnp.float32; jnp.bfloat16; jnp.float16}, {0; -2.5; y}, {7; z})",
            "x uint32[] seed, y float32[] signed, z float32[] positive",
            "v",
        ),
        (
            "random.randint(random.key(x), (6,), y, z, dtype={jnp.int32; jnp.int8; jnp.uint8; jnp.int16; jnp.uint32; jnp.uint16})",
            "x uint32[] seed, y int32[] {within; zero; index}, z int32[] {small; counts}",
            "ve",
        ),
        (
            "random.randint(random.key(x), (6,), {-128; -300; 0}, {127; 128; 300; 2**31 - 1}, dtype={jnp.int32; jnp.int8; jnp.uint8; jnp.int16; jnp.uint32})",
            "x uint32[] seed",
            "ve",
        ),
        (
            "random.key_data(random.{split(random.key(x), {2; 3; (2, 2)}); fold_in(random.key(x), y); clone(random.key(x)); key(y)})",
            "x uint32[] seed, y uint32[] seed",
            "ve",
        ),
        (
            "random.key_data(jax.vmap(random.fold_in, (None, 0))(random.key(x), y))",
            "x uint32[] seed, y int32[4] {index; edges}",
            "ve",
        ),
        (
            "jax.vmap(lambda k: random.normal(k, (3,)))(random.split(random.key(x), 4))",
            "x uint32[] seed",
            "ve",
        ),
        (
            "lax.scan(lambda k, _: (lambda a: (a[0], random.{normal; uniform; bits}(a[1], (2,))))(random.split(k)), random.key(x), length=3)[1]",
            "x uint32[] seed",
            "ve",
        ),
        (
            "lax.fori_loop(0, 3, lambda i, a: a + random.{normal; gumbel}(random.fold_in(random.key(x), i), (3,)), y)",
            "x uint32[] seed, y float32[3] normal",
            "v",
        ),
        (
            "random.{bernoulli(random.key(x), y); bernoulli(random.key(x), y, (3, 4)); poisson(random.key(x), 4 * y, (3, 4)); geometric(random.key(x), y, (3, 4)); binomial(random.key(x), 5, y, (3, 4))}",
            "x uint32[] seed, y float32[4] unit",
            "v",
        ),
        (
            "random.{gamma; loggamma; chisquare; t; pareto; dirichlet; rayleigh; wald}(random.key(x), y)",
            "x uint32[] seed, y float32[4] {positive; unit; large}",
            "vd",
        ),
        (
            "random.{beta; f}(random.key(x), y, z)",
            "x uint32[] seed, y float32[4] positive, z float32[4] positive",
            "vd",
        ),
        (
            "random.weibull_min(random.key(x), y, z, (4,))",
            "x uint32[] seed, y float32[4] positive, z float32[4] positive",
            "vd",
        ),
        (
            "random.{gamma; dirichlet}(random.key(x), y, {(3, 4); None})",
            "x uint32[] seed, y float32[4] {positive; unit}",
            "vd",
        ),
        (
            "random.truncated_normal(random.key(x), y, z, {(3, 4); None})",
            "x uint32[] seed, y float32[4] {signed; unit}, z float32[4] {positive; large}",
            "vd",
        ),
        (
            "random.categorical(random.key(x), y{; , axis=0; , shape=(5, 3)}{; , replace=True})",
            "x uint32[] seed, y float32[3,4] {normal; edges; nans}",
            "ve",
        ),
        (
            "random.choice(random.key(x), {y; 7; 4}, {(3,); (); (2, 2)}, replace={True; False})",
            "x uint32[] seed, y {float32; int32; bfloat16}[6,2] normal",
            "ve",
        ),
        (
            "random.choice(random.key(x), 4, (3,), replace={True; False}, p=y)",
            "x uint32[] seed, y float32[4] unit",
            "ve",
        ),
        (
            "random.choice(random.key(x), y, (3,), axis={0; 1}, replace={True; False}{; , mode='low'})",
            "x uint32[] seed, y float32[4,5] normal",
            "ve",
        ),
        (
            "random.permutation(random.key(x), {y; 7; y.T}, {axis=0; axis=1, independent=True; independent=True})",
            "x uint32[] seed, y {float32; int32; int8}[4,3] normal",
            "ve",
        ),
        (
            "random.multivariate_normal(random.key(x), y, z, {(3,); (2,)}{k = ; , method='svd'; , method='eigh'})",
            "x uint32[] seed, y float32[3] normal, z float32[3,3] spd",
            "v",
        ),
        (
            "random.multinomial(random.key(x), {5; 9}, y / y.sum())",
            "x uint32[] seed, y float32[4] unit",
            "v",
        ),
        (
            "random.{ball(random.key(x), 3, {1; 2; 3.5}, (4,)); lognormal(random.key(x), y, (4,)); triangular(random.key(x), -1, 0.5, y, (4,)); generalized_normal(random.key(x), y, (4,))}",
            "x uint32[] seed, y float32[] positive",
            "v",
        ),
        (
            "random.{orthogonal(random.key(x), 3) @ y; normal(random.key(x), (3, 3), jnp.complex64) @ y}",
            "x uint32[] seed, y float32[3,3] normal",
            "v",
        ),
        (
            "random.bits(random.key(x), {(5,); (); (3, 0)}, jnp.{uint8; uint16; uint32})",
            "x uint32[] seed",
            "ve",
        ),
        (
            "random.key_data(random.wrap_key_data(y{; , impl='threefry2x32'}))",
            "y uint32[3,2] seed",
            "ve",
        ),
        (
            "random.key_data(jnp.{concatenate([random.split(random.key(x)), random.split(random.key(y), 3)]); stack([random.key(x), random.key(y)]); where(x > y, random.key(x), random.key(y)); broadcast_to(random.key(x), (2, 3)); roll(random.split(random.key(x), 4), 1)})",
            "x uint32[] seed, y uint32[] seed",
            "ve",
        ),
        (
            "random.key_data(random.split(random.key(x), 6)[{1:4; ::2; y; -1; None, 2}])",
            "x uint32[] seed, y int32[3] within",
            "ve",
        ),
        (
            "lax.cond(z > 0, lambda: random.uniform(random.key(x)), lambda: random.normal(random.key(y)))",
            "x uint32[] seed, y uint32[] seed, z float32[] normal",
            "ve",
        ),
        (
            "jax.shard_map(lambda k, a: a + random.{normal; uniform; gumbel}(random.fold_in(random.wrap_key_data(k), lax.axis_index('x')), a.shape), mesh=mesh, in_specs=(P(), P('x')), out_specs=P('x'))(random.key_data(random.key(x)), y)",
            "x uint32[] seed, y float32[8] normal",
            "v",
        ),
        (
            "nn.initializers.{glorot_normal; he_uniform; lecun_normal; xavier_uniform; kaiming_normal; orthogonal}()(random.key(x), {(3, 4); (2, 3, 4)}, {jnp.float32; jnp.bfloat16})",
            "x uint32[] seed",
            "v",
        ),
        (
            "nn.initializers.{truncated_normal(0.1); uniform(2.0); normal(3); variance_scaling(2.0, 'fan_{in; out; avg}', '{normal; uniform; truncated_normal}')}(random.key(x), (3, 4))",
            "x uint32[] seed",
            "v",
        ),
    ),
    "nn": (
        (
            "nn.{relu; relu6; elu; celu; selu; gelu; silu; swish; mish; softplus; soft_sign; sigmoid; hard_tanh; hard_sigmoid; hard_silu; log_sigmoid; leaky_relu; squareplus; sparse_plus; sparse_sigmoid; identity; tanh; hard_swish}(x)",
            "x {float32; float32; bfloat16; float16}[10] {normal; edges; large; around; nans}",
            "v2",
        ),
        (
            "nn.{gelu(x, approximate={True; False}); leaky_relu(x, {0.1; -0.5}); elu(x, {1.5; 0.2}); celu(x, {0.3; 2.0}); squareplus(x, {0.; 4.; 9.})}",
            "x float32[8] {normal; around; edges}",
            "vd2",
        ),
        (
            "nn.{softmax; log_softmax; standardize; logsumexp; glu; logmeanexp}(x, axis={0; 1; -1})",
            "x {float32; bfloat16}[4,6] {normal; large; edges; nans}",
            "vd2",
        ),
        (
            "nn.{softmax; log_softmax}(x, axis={0; (0, 1); -1}, where=y)",
            "x float32[4,5] {normal; edges; nans}, y bool[{4,5; 4,1; 5}] normal",
            "vd2",
        ),
        (
            "nn.standardize(x, axis={0; 1; (0, 1)}, epsilon={0.0; 1e-5}{; , where=y})",
            "x float32[4,5] {normal; large}, y bool[4,5] normal",
            "vd",
        ),
        (
            "nn.one_hot(x, {4; 6}{; , axis=0; , axis=-2}{; , dtype=jnp.bfloat16; , dtype=jnp.int8})",
            "x int32[3,2] index",
            "ve",
        ),
        (
            "nn.dot_product_attention(x, y, z{; , is_causal=True; , scale=0.7; , local_window_size=(1, 1)})",
            "x float32[2,4,4,3] normal, y float32[2,5,4,3] normal, z float32[2,5,4,3] normal",
            "vd",
        ),
        (
            "nn.dot_product_attention(x, y, y{; , is_causal=True}{; , bias=z; , mask=z > 0; , local_window_size=1; , query_seq_lengths=jnp.array([2, 4]), key_value_seq_lengths=jnp.array([3, 5])})",
            "x {d := float32; float32; bfloat16}[2,4,4,3] normal, y {d}[2,5,4,3] normal, z float32[{2,4,4,5; 1,1,4,5; 1,4,4,5}] normal",
            "vd",
        ),
        ("nn.{log1mexp; logmeanexp}(x)", "x float32[8] {positive; unit; edges}", "vd2w"),
        (
            "jnp.sum(nn.relu(x @ y) @ z)",
            "x {float32; bfloat16; float16}[3,4] normal, y {float32; bfloat16}[4,5] normal, z float32[5,2] normal",
            "vd2",
        ),
    ),
    "linalg": (
        (
            "jnp.linalg.{det; inv; slogdet; norm; pinv; cond; matrix_norm; svdvals; cholesky}(x)",
            "x {float32; float32; complex64}[{3,3; 2,3,3}] {regular; spd}",
            "vd2",
        ),
        ("jnp.linalg.{eigh; eigvalsh; svd; qr}(x)", "x float32[{3,3; 2,3,3}] spd", "v"),
        (
            "(lambda w, v: (v * jnp.sin(w)) @ jnp.swapaxes(v, -1, -2).conj())(*jnp.linalg.eigh(x))",
            "x float32[{3,3; 4,4; 2,3,3}] spd",
            "vd2w",
        ),
        (
            "(lambda u, s, v: (u * jnp.tanh(s)[..., None, :]) @ v)(*jnp.linalg.svd(x, full_matrices={False; False}))",
            "x {float32; complex64}[{4,3; 3,3; 2,3,4; 3,5}] normal",
            "vd",
        ),
        (
            "(lambda q, r: (q @ (r * r), jnp.abs(r)))(*jnp.linalg.qr(x))",
            "x {float32; complex64}[{4,3; 3,3; 2,4,2}] regular",
            "vd2w",
        ),
        (
            "(lambda p, l, u: p @ (l * 2) @ u)(*jsp.linalg.lu(x))",
            "x float32[{3,3; 4,3; 3,4; 2,3,3}] regular",
            "vd2w",
        ),
        (
            "jsp.linalg.{expm; polar; lu_factor; inv; det; cholesky}(x)",
            "x float32[3,3] {regular; spd}",
            "vd",
        ),
        (
            "jsp.linalg.expm(x * {1e-3; 1; 5; -8})",
            "x {float32; complex64}[{3,3; 2,2}] normal",
            "vd2w",
        ),
        (
            "jnp.linalg.solve(x, y)",
            "x {float32; complex64}[{3,3; 2,3,3}] regular, y float32[3,2] normal",
            "vd2w",
        ),
        (
            "jsp.linalg.solve(x, y, assume_a={'gen'; 'pos'; 'sym'; 'her'}{; , lower=True})",
            "x float32[3,3] spd, y float32[{3; 3,2}] normal",
            "vd2",
        ),
        (
            "jsp.linalg.solve_triangular(x, y, lower={True; False}, trans={0; 1; 2; 'T'}, unit_diagonal={True; False})",
            "x {float32; complex64}[3,3] regular, y {float32; complex64}[{3; 3,2}] normal",
            "vd2w",
        ),
        (
            "lax.linalg.triangular_solve(x, y, left_side={True; False}, lower={True; False}, transpose_a={True; False}, conjugate_a={True; False}, unit_diagonal={True; False})",
            "x {d := float32; complex64}[2,3,3] regular, y {d}[2,3,3] normal",
            "vd2",
        ),
        (
            "jsp.linalg.{cho_solve((jsp.linalg.cholesky(x, lower={l := True; False}), {l}), y); lu_solve(jsp.linalg.lu_factor(x), y, trans={0; 1; 2})}",
            "x float32[3,3] spd, y float32[3,2] normal",
            "vd2",
        ),
        (
            "jnp.linalg.norm(x, ord={1; -1; 2; -2; jnp.inf; -jnp.inf; 'fro'; 'nuc'}, axis={(0, 1); (1, 0); (-2, -1)}{; , keepdims=True})",
            "x {float32; complex64}[3,4] normal",
            "vd",
        ),
        (
            "jnp.linalg.{vector_norm(x, ord={0; 1; 2; 3; -1; 0.5; jnp.inf; -jnp.inf}, axis={0; 1; None; (0, 1)}); norm(x, ord={0; 1; 3; -2; jnp.inf}, axis={0; -1})}",
            "x {float32; complex64; float16}[3,4] {normal; ties}",
            "vd",
        ),
        (
            "jnp.linalg.{matrix_power(x, {0; 1; -2; 3; 5}); multi_dot([x, y, x]); matrix_rank(x); trace(x, offset={0; 1; -1}); diagonal(x, offset={0; -1}); outer(x[0], y[0]); cross(x, y); tensorinv(jnp.kron(x, y).reshape(9, 3, 3), ind=1); matmul(x, y); vecdot(x, y); tensordot(x, y, axes={0; 1; 2})}",
            "x float32[3,3] regular, y float32[3,3] regular",
            "vd",
        ),
        (
            "jnp.linalg.lstsq(x, y)[{0; 2; 3}]",
            "x float32[4,{2; 3; 4}] regular, y float32[4,2] normal",
            "v",
        ),
        (
            "jnp.linalg.lstsq(x, y{; , rcond=0.1; , rcond=-1})[0]",
            "x float32[4,{3; 2; 4}] regular, y float32[{4; 4,2}] normal",
            "vd",
        ),
        ("jnp.linalg.pinv(x{; , hermitian=True; , rtol=0.05})", "x float32[3,3] spd", "vd2w"),
        ("jnp.abs(jnp.sort(jnp.linalg.eigvals(x)))", "x {float32; complex64}[3,3] regular", "vd"),
        (
            "(lambda w, v: jnp.abs((v * w[..., None, :] ** 2) @ jnp.linalg.inv(v)))(*jnp.linalg.eig(x))",
            "x {float32; complex64}[3,3] regular",
            "v",
        ),
        (
            "jnp.{kron(x, y); cross(x, y); inner(x, y); outer(x, y); vdot(x, y); tensordot(x, y, axes=([0], [{0; 1}])); matmul(x, y); einsum('{ij,jk->ik; ii,jk->jk; ij,ij->; ij,kj->ki; ij,jj->i; ...j,j...->...}', x, y)}",
            "x {float32; int32; bfloat16; complex64; bool; uint8; float16}[3,3] normal, y {float32; int32; bool; int8}[3,3] normal",
            "v",
        ),
        (
            "jsp.linalg.{toeplitz(x, y); block_diag(x, y); hilbert(3) * x[0]; expm_frechet(jnp.outer(x, x), jnp.outer(y, y)); eigh_tridiagonal(x, y[:2], eigvals_only=True)}",
            "x float32[3] normal, y float32[3] normal",
            "v",
        ),
        (
            "jsp.linalg.{sqrtm(x).real; schur(x)[1] @ jsp.linalg.schur(x)[0] @ jsp.linalg.schur(x)[1].T; hessenberg(x)}",
            "x float32[3,3] spd",
            "",
        ),
        (
            "lax.linalg.{tridiagonal_solve(x, y, z, jnp.stack([y, x], -1)); symmetric_product(jnp.outer(x, y), jnp.outer(z, z)); cholesky_update(jnp.diag(y), x)}",
            "x float32[4] unit, y float32[4] large, z float32[4] unit",
            "v",
        ),
        (
            "jnp.linalg.{det; slogdet; inv; matrix_rank; pinv; cond}(x)",
            "x {float32; int32}[3,3] {ties; zero; within; edges}",
            "v",
        ),
        (
            "lax.linalg.{svd(x, full_matrices={True; False}, compute_uv=False); eigh(x)[1]; lu(x)[2]; householder_product(x, x[0])}",
            "x float32[{3,3; 4,4}] spd",
            "v",
        ),
    ),
    "dtypes": (
        (
            "x.astype({'int8'; 'uint8'; 'int16'; 'int32'; 'uint32'; 'bool'; 'int4'; 'uint4'; 'int2'; 'uint2'})",
            "x {float32; bfloat16; float16}[12] {edges; wide; around; nans}",
            "ve",
        ),
        (
            "x.astype({'float8_e4m3fn'; 'float8_e5m2'; 'float8_e4m3b11fnuz'; 'float8_e4m3fnuz'; 'float8_e5m2fnuz'; 'float8_e3m4'; 'float8_e4m3'; 'bfloat16'; 'float16'; 'float4_e2m1fn'; 'float8_e8m0fnu'}).astype({'float32'; 'bfloat16'; 'float16'})",
            "x {float32; bfloat16; float16; int32; uint8}[16] {normal; edges; around; large; wide}",
            "ve",
        ),
        (
            "x {+; -; *; &; |; ^; //; %; **; <<; >>; <; ==} y",
            "x {d := int8; uint8; int16; uint16; int32; uint32}[10] {edges; normal; index}, y {d}[10] {edges; small; normal; counts}",
            "ve",
        ),
        (
            "x {+; -; *; //; %; <; ==; <<; >>} y",
            "x {int8; uint8; int16; int32; uint32; bool}[10] {edges; normal}, y {int8; uint8; int16; uint32; bool; float16; bfloat16; float32}[10] {edges; normal}",
            "ve",
        ),
        (
            "x {+; -; *; /; //; %; **; <; !=} y",
            "x {float32; bfloat16; float16}[14] {edges; around; normal}, y {float32; bfloat16; int32; int8}[14] {edges; normal; around; small}",
            "v",
        ),
        (
            "{3; -2; 0.5; 2.5; True; 1j; 7} {+; -; *; /; **; %; //; ==} x",
            "x {float32; bfloat16; int8; uint8; int32; bool; complex64}[8] {normal; small; edges}",
            "v",
        ),
        (
            "x {+; -; *; /; **; %; //; <; &; >>; <<} {3; -1; 2; 1; True; 100}",
            "x {float32; bfloat16; int8; uint8; int32; bool; int16}[8] {normal; edges}",
            "v",
        ),
        (
            "x ** {-3; -2; -1; 0; 1; 2; 3; 7; 0.5; -0.5; 2.0; 1.5}",
            "x {float32; bfloat16; complex64; float16}[12] {edges; normal; around; ties}",
            "v2",
        ),
        (
            "jnp.{power; float_power; remainder; fmod; floor_divide; divmod; true_divide; mod; nextafter; copysign; heaviside; logaddexp; logaddexp2; hypot; arctan2; maximum; minimum; fmax; fmin; gcd; lcm; left_shift; right_shift; bitwise_xor; subtract; not_equal}(x, y)",
            "x {float32; bfloat16; int32; uint8; int8; bool}[12] {edges; normal; around}, y {float32; int32; int8; uint8}[12] {edges; normal; around}",
            "v",
        ),
        (
            "jnp.{abs; negative; positive; sign; square; reciprocal; sqrt; cbrt; exp; exp2; expm1; log; log2; log10; log1p; sin; cos; tan; arcsin; arccos; arctan; sinh; cosh; tanh; arcsinh; arccosh; arctanh; floor; ceil; rint; trunc; round; fix; signbit; isnan; isinf; isfinite; isposinf; isneginf; frexp; modf; spacing; invert; logical_not; conj; real; imag; angle; sinc; i0; nan_to_num; bitwise_count; degrees; radians; deg2rad; unwrap; fabs}(x)",
            "x {float32; bfloat16; float16; int32; uint8; int8; bool; complex64}[12] {edges; normal; around; signed; nans}",
            "v",
        ),
        (
            "jnp.{sign; square; reciprocal; sqrt; exp; log; log2; log10; log1p; expm1; sin; cos; tan; arcsin; arccos; arctan; sinh; cosh; tanh; arcsinh; arccosh; arctanh; abs; conj; angle; exp2; sinc}(x)",
            "x {complex64; float32}[10] {normal; unit; around; edges}",
            "v2",
        ),
        (
            "lax.{shift_left; shift_right_logical; shift_right_arithmetic; rem; div; pow; nextafter; max; min; atan2; add; mul; sub}(x, y)",
            "x {d := int8; uint8; int32; uint32; float32; bfloat16}[10] edges, y {d}[10] {edges; small; normal}",
            "v",
        ),
        (
            "lax.{population_count; clz; bitwise_not; neg; abs; sign; is_finite; round; floor; ceil}(x)",
            "x {int8; uint8; int32; uint32; float32; float16; bfloat16}[10] {edges; around}",
            "v",
        ),
        (
            "lax.bitcast_convert_type(x, {jnp.int32; jnp.uint32; jnp.int8; jnp.uint16; jnp.float16; jnp.bfloat16})",
            "x {float32; int32; uint32}[3,4] {edges; normal}",
            "ve",
        ),
        (
            "lax.{reduce_precision(x, {5; 8; 4; 3}, {2; 10; 7; 3}); integer_pow(x, {-3; 0; 1; 5}); clamp(-1.0, x, 2.0); round(x, lax.RoundingMethod.{TO_NEAREST_EVEN; AWAY_FROM_ZERO})}",
            "x float32[12] {edges; around; normal}",
            "v2",
        ),
        (
            "jnp.{sum; prod; mean; max; min; any; all; var; std; ptp; median; argmax; argmin; cumsum; cumprod; count_nonzero; nansum; nanmax; nanmean; nanvar; nanmedian; nanargmax; nancumsum; average}(x{; , axis=0; , axis=1})",
            "x {int8; uint8; int16; bool; bfloat16; float16; float32; complex64; int32}[3,5] {normal; ties; edges; nans}",
            "v",
        ),
        (
            "jnp.{sum; prod; mean; cumsum; cumprod; std; var}(x, axis={0; 1}, dtype={jnp.int8; jnp.float32; jnp.bfloat16; jnp.int32; jnp.uint8; jnp.complex64})",
            "x {int8; uint8; bool; bfloat16; float32; int32}[3,5] {normal; ties}",
            "v",
        ),
        (
            "jnp.{promote_types(x.dtype, y.dtype).type(1) * x; result_type(x, y, 1.0).type(2) + x; where(x > 0, x, y); concatenate([x, y]); stack([x, y]); append(x, y); select([x > 0, y > 0], [x, y], 0); where(y > 0, x, {0; 1.0; -1; 2.5}); clip(x, {0; -1; 0.5}, {3; 2.5; 300})}",
            "x {float32; bfloat16; int8; uint8; int32; bool; complex64; float16}[6] normal, y {float32; bfloat16; int8; uint8; int32; bool}[6] normal",
            "v",
        ),
    ),
    "reductions": (
        (
            "jnp.{sum; prod; mean; std; var}(x, axis={0; 1; None; (0, 2); -1}, where=y{; , keepdims=True})",
            "x {float32; int32; bfloat16; complex64}[3,4,2] {normal; ties}, y bool[{3,4,2; 4,1; 2; 1}] normal",
            "vd2",
        ),
        (
            "jnp.{max; min; sum; prod; nanmax; nanmin; nansum}(x, axis={0; 1; (1, 2); None}, initial={1; -7; 0}, where=y)",
            "x {float32; int32; float16}[3,4,2] {normal; nans; ties}, y bool[{3,4,2; 4,1}] normal",
            "vd",
        ),
        (
            "jnp.{max; min; amax; ptp; median; nanmedian; argmax; argmin; nanmax; nanmin; nanstd; nanvar; nanmean; nanprod; nanargmin}(x, axis={0; 1; -1; None}{; , keepdims=True})",
            "x {float32; bfloat16}[4,6] {nans; edges; ties; normal}",
            "vd",
        ),
        (
            "jnp.{var; std; nanvar; nanstd}(x, axis={0; None; 1}, ddof={0; 1; 2; 4; 5}{; , keepdims=True})",
            "x {float32; complex64; int32; float16}[4,3] {normal; ties; nans}",
            "vd",
        ),
        (
            "jnp.{quantile; percentile; nanquantile; nanpercentile}(x, {0.3; 1.0; 0; jnp.array([0.1, 0.5, 1.0]); y}, axis={0; 1; None; (0, 1)}, method='{linear; lower; higher; midpoint; nearest}'{; , keepdims=True})",
            "x float32[4,5] {normal; ties; nans; edges}, y float32[2] unit",
            "v",
        ),
        (
            "jnp.quantile(x, y, axis={0; -1}, weights=z, method='inverted_cdf')",
            "x float32[5,4] {normal; ties}, y float32[3] unit, z float32[5,4] {unit; counts}",
            "",
        ),
        (
            "jnp.{cumsum; cumprod; cumulative_sum; cumulative_prod; nancumsum; nancumprod}(x, axis={0; 1; -1})",
            "x {float32; bfloat16; int8; bool; complex64}[3,4] {normal; nans; ties}",
            "vd2",
        ),
        (
            "lax.{cumsum; cumprod; cummax; cummin; cumlogsumexp}(x, axis={0; 1}, reverse={True; False})",
            "x {float32; bfloat16; float16}[4,5] {normal; nans; ties; edges}",
            "vd",
        ),
        (
            "jnp.{average(x, axis={0; 1; None}, weights=y, returned={True; False}); cov(x, y, ddof={0; 1}, bias={True; False}); corrcoef(x, y, rowvar={True; False}); cov(x, fweights=jnp.array([1, 2, 3, 1])); cov(x, aweights=jnp.abs(y[0]), rowvar={True; False})}",
            "x {float32; complex64}[{4,4}] normal, y float32[4,4] {normal; positive}",
            "vd",
        ),
        (
            "jnp.{diff(x, n={0; 1; 2; 3}, axis={0; 1}); gradient(x, axis={0; 1}); gradient(x, {0.5; 2}); ediff1d(x); trapezoid(x, dx={0.5; 2}, axis={0; 1}); diff(x, prepend={0; 1.5}, append=2); cross(x[:, :3], x[:, 1:4])}",
            "x {float32; int32; bfloat16}[4,5] normal",
            "vd",
        ),
        (
            "lax.reduce(x, {0.0; 1.5}, {lax.add; lax.mul; lax.max; lax.min}, {(0,); (1,); (0, 1)})",
            "x float32[3,4] {normal; nans}",
            "vd",
        ),
        (
            "lax.reduce_window(x, {0.0, lax.add; -jnp.inf, lax.max; jnp.inf, lax.min}, {(2, 2); (1, 3); (3, 1)}, {(1, 1); (2, 2); (2, 1)}, {'SAME'; 'VALID'; ((1, 0), (0, 2))}{; , base_dilation=(2, 1); , window_dilation=(1, 2)})",
            "x float32[4,6] {normal; nans}",
            "v",
        ),
        (
            "lax.reduce_window(x, {0.0, lax.add; -jnp.inf, lax.max}, (2, 3), {(1, 1); (2, 2)}, {'SAME'; 'VALID'; ((1, 0), (0, 2))})",
            "x float32[4,6] normal",
            "vd2",
        ),
        (
            "jax.ops.segment_{sum; prod; max; min}(x, y, {num_segments=4; num_segments=3; num_segments=6}{; , indices_are_sorted=False}{; , mode='drop'; , bucket_size=2})",
            "x {float32; int32}[7,2] normal, y int32[7] {index; within}",
            "vd",
        ),
        (
            "jnp.{bincount(x, length={5; 8}); bincount(x, weights=y, length=6); digitize(y, jnp.array([-1., 0., 0., 1.]), right={True; False}); histogram(y, bins={4; jnp.array([-1., 0., .5, 2.])}); histogram(y, 3, range=(-1, 1){; , density=True}); histogram_bin_edges(y, {3; 5}{; , range=(0, 1)})}",
            "x int32[9] {counts; index}, y float32[9] {normal; ties; around}",
            "v",
        ),
        (
            "jnp.{interp(x, y, z); interp(x, y, z, left=-7, right=9.); interp(x, y, z, period={3.; 10})}",
            "x float32[6] {normal; large; edges; around}, y float32[5] {ascending; normal}, z float32[5] normal",
            "vd",
        ),
        (
            "jnp.unwrap(x{; , discont=4.0; , period=3.0; , axis=0})",
            "x {float32; int32}[3,6] {normal; large; ties}",
            "v",
        ),
        (
            "jnp.{convolve; correlate}(x, y, mode='{full; same; valid}')",
            "x {float32; int32; complex64}[{5; 3; 2}] normal, y {float32; int8; complex64}[{3; 4}] normal",
            "vd2",
        ),
        (
            "jnp.{polyfit(x, y, {1; 2; 3}); polyval(x, y); roots(x); polyadd(x, y); polymul(x, y); polyder(x, {1; 2}); polyint(x, {1; 2}); polysub(x, y[:3]); poly(x); polydiv(x, y[:2])}",
            "x float32[6] {normal; positive}, y float32[6] normal",
            "",
        ),
    ),
    "sorting": (
        (
            "jnp.{sort; argsort}(x, axis={0; 1; -1; None}{; , descending=True})",
            "x {float32; bfloat16; int8; uint8; bool; float16; complex64}[4,6] {nans; ties; normal; edges}",
            "v",
        ),
        ("jnp.sort(x, axis={0; 1}{; , descending=True})", "x float32[4,6] {normal; ties}", "vd2"),
        (
            "lax.sort((x, y), dimension={0; 1}, num_keys={1; 2}{; , is_stable=False})",
            "x float32[3,6] {nans; ties}, y {float32; int32}[3,6] {normal; nans; ties}",
            "v",
        ),
        (
            "lax.{top_k(x, {1; 3; 6}); approx_max_k(x, 2); argmax(x, {0; 1}, jnp.int32); argmin(x, {0; 1}, jnp.int32)}",
            "x {float32; bfloat16; int8; uint8}[4,6] {nans; ties; normal; edges}",
            "v",
        ),
        ("lax.top_k(x, {1; 3})[0]", "x float32[4,6] {normal}", "vd"),
        (
            "jnp.{lexsort((x, y)); searchsorted(jnp.sort(x), y, side='{left; right}', method='{scan; scan_unrolled; sort; compare_all}'); partition(x, {2; 0; 5})[2]; sort_complex(x); argmax(x); argmin(x); nanargmax(x); flatnonzero(x, size=4, fill_value=-1)}",
            "x {float32; int32; bfloat16}[8] {nans; ties; normal; edges}, y {float32; int32; float16}[8] {nans; ties; normal; edges}",
            "v",
        ),
        (
            "jnp.{unique(x, size={4; 8; 2}, fill_value={-5; None}); unique(x, return_index=True, return_inverse=True, return_counts=True, size=5); unique(x, axis=0, size=3{; , equal_nan=False}); unique_values(x, size=5); nonzero(x, size={3; 20}); argwhere(x, size=4); union1d(x, y, size=9); intersect1d(x, y, size=4{; , return_indices=True}); setdiff1d(x, y, size=4); setxor1d(x, y, size=5); isin(x, y{; , invert=True})}",
            "x {float32; int32; uint8}[3,3] {ties; nans}, y {float32; int32}[4] {ties; normal}",
            "v",
        ),
        (
            "jnp.unique(x{; , return_counts=True; , return_inverse=True; , axis=0; , axis=1; , equal_nan=False})",
            "x {float32; int32; bool; complex64}[3,4] {ties; nans}",
            "",
        ),
        (
            "lax.sort(x, dimension=-1)",
            "x {float32; int32; bfloat16}[2,{1; 7; 33}] {nans; normal}",
            "v",
        ),
        (
            "jnp.{median; nanmedian}(x, axis={0; 1; None; (0, 1)})",
            "x float32[{3,4; 5,3}] {nans; normal; edges; ties}",
            "vd",
        ),
    ),
    "indexing": (
        (
            "x[y{; , z; , 1; , :; , ::-1; , None, 2; , ...; , 1:3}]",
            "x {float32; int8; bfloat16}[4,5] normal, y {int32; int8; uint8}[3] {index; within}, z int32[3] index",
            "vd2",
        ),
        (
            "x[{1; -1; 1:3; ::2; ..., 0; None; -3:-1; 3:0:-1; :, 1:5:2; ..., None, :2; ::-2, ::3; 5:; -9:2; 2:2}]",
            "x {float32; int32; complex64}[4,5] normal",
            "vd2",
        ),
        (
            "x[{:, y; 1, y; y, :, 1; y[:, None], z; y, None, z; ..., y; y, 1:, z}]",
            "x float32[4,5,4] normal, y int32[3] {index; within}, z int32[3] within",
            "vd",
        ),
        (
            "x.at[y].{set; add; multiply; divide; min; max; power; subtract; mul}(z{; , mode='drop'; , mode='clip'; , mode='fill'}{; , unique_indices=False})",
            "x {float32; int32; uint8; bfloat16}[5] {normal; small}, y int32[4] {index; within}, z {float32; int32; bool}[{4; 1}] {normal; small}",
            "v",
        ),
        (
            "x.at[y].{set; add; multiply; min; max}(z{; , mode='drop'; , mode='clip'; , mode='wrap'})",
            "x float32[5,2] normal, y int32[4] index, z float32[{4,2; 2; 4,1}] normal",
            "vd2",
        ),
        (
            "x.at[{1; -1; 1:4; ::2; ..., 0; :, y; y, z; z}].{set; add; multiply; max}(2.5)",
            "x float32[5,6] normal, y int32[3] {index; within}, z int32[3] within",
            "vd2",
        ),
        (
            "x.at[y].apply({jnp.sin; jnp.square; jnp.exp; lambda v: v * 2})",
            "x {float32; bfloat16}[5] normal, y int32[3] {index; within}",
            "vd",
        ),
        (
            "x.at[y].get(mode={'fill'; 'clip'; 'drop'; 'wrap'}{; , fill_value=7; , fill_value=-1})",
            "x {float32; int32; uint8; bool; bfloat16}[5,2] normal, y int32[4] index",
            "vd",
        ),
        (
            "jnp.{take(x, y, axis={0; 1; None}, mode={'fill'; 'clip'; 'wrap'}{; , fill_value=3}); take_along_axis(x, y[None, :] % 3, {0; 1}); compress(y > 0, x, axis={0; None}, size=3); delete(x, {1; -1; jnp.array([0, 2])}, axis={0; 1}); insert(x, {1; -1}, 9.0, axis={0; 1}); extract(x > 0, x, size=5)}",
            "x {float32; int32}[4,5] normal, y int32[5] {index; within}",
            "v",
        ),
        (
            "jnp.take_along_axis(x, y, axis={0; 1; -1}, mode={'fill'; 'clip'; None})",
            "x float32[4,5] normal, y {int32; int8; uint8}[{4,5; 1,5; 4,1}] {within; index}",
            "vd",
        ),
        (
            "jnp.{put_along_axis(x, y, z, axis={0; 1}, inplace=False); put(x, y, z, mode={'clip'; 'wrap'; None}, inplace=False); fill_diagonal(x, z[0, 0], wrap={True; False}, inplace=False); place(x, x > 0, z.ravel(), inplace=False); choose(y % 3, [x, z, 1.0]){; * 1}; select([x > 0, z > 0], [x, z], 5); where(x > z, x, z); piecewise(x, [x < 0, z > 0], [jnp.sin, 2.0, lambda v: -v])}",
            "x float32[4,5] normal, y int32[4,5] within, z float32[4,5] normal",
            "v",
        ),
        (
            "lax.dynamic_slice(x, (y[0], y[1]), {(2, 3); (4, 5); (1, 1)})",
            "x {float32; int8}[4,5] normal, y {int32; int8; uint8}[2] {index; edges; within}",
            "vd2",
        ),
        (
            "lax.dynamic_update_slice(x, z, (y[0], y[1]))",
            "x float32[4,5] normal, y {int32; int8}[2] {index; edges; within}, z float32[{2,3; 4,1; 1,5}] normal",
            "vd2",
        ),
        (
            "lax.{dynamic_index_in_dim(x, y[0], {0; 1}, keepdims={True; False}); dynamic_slice_in_dim(x, y[0], 2, axis={0; 1}); dynamic_update_index_in_dim(x, z, y[0], 0)}",
            "x float32[4,5] normal, y int32[2] {index; within}, z float32[5] normal",
            "vd",
        ),
        (
            "lax.gather(x, y, lax.GatherDimensionNumbers({(1,), (0,), (0,); (0, 1), (), (0,); (0,), (1,), (1,)}), {(1, 5); (2, 3); (4, 1)}, mode={'clip'; 'fill'; 'fill', fill_value=5.})",
            "x float32[4,5] normal, y int32[3,1] {within; index}",
            "vd2",
        ),
        (
            "lax.scatter{_add; _mul; _min; _max; ; _sub}(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0,)), mode={'clip'; 'drop'; 'fill'}{; , unique_indices=False})",
            "x float32[4,5] normal, y int32[3,1] {within; index}, z float32[3,5] normal",
            "vd",
        ),
        (
            "lax.scatter_{add; min; max}(x, y, z, lax.ScatterDimensionNumbers((0, 1), (), (0, 1)){; , mode='clip'; , mode='drop'})",
            "x {float32; int32}[4,5] normal, y int32[3,2] {within; index; edges}, z {float32; int32}[2,2] normal",
            "",
        ),
        (
            "jnp.{roll(x, {1; -7; (1, 2)}, axis={0; 1; None}); rot90(x, {1; 2; 3; -1}); flip(x, {0; 1; None}); tile(x, {2; (2, 1); (1, 2, 1)}); repeat(x, {2; 3}, axis={0; 1; None}); pad(x, {1; ((1, 2), (0, 3))}, mode='{constant; edge; reflect; symmetric; wrap; mean; maximum; minimum; linear_ramp; median}'); triu(x, {0; 1; -2}); tril(x, {0; -1; 3}); diag(x, {0; 1; -2}); diagflat(x[0], {0; 1}); resize(x, (3, 3)); moveaxis(x, 0, 1); squeeze(x[None]); split(x, {2; 4; [1, 3]}); array_split(x, 3); meshgrid(x[0], x[1]); ravel(x, order={'C'; 'F'}); reshape(x, (2, -1), order={'C'; 'F'}); vander(x[0], {3; 4}); trace(x, offset={1; -1})}",
            "x {float32; int32; bool; bfloat16}[4,5] normal",
            "v",
        ),
        (
            "jnp.repeat(x, y, axis=0, total_repeat_length={5; 12; 3})",
            "x float32[4,2] normal, y int32[4] {counts; small}",
            "vd",
        ),
        (
            "lax.{pad(x, 1.5, ((1, -1, {0; 1; 2}), (-2, 3, {0; 1}))); slice(x, (1, 0), (4, 5), (2, {1; 3})); rev(x, {(0,); (1,); (0, 1)}); concatenate([x, x * 2], {0; 1}); broadcast_in_dim(x, (4, 2, 5), (0, 2)); reshape(x, (10, 2), {None; (1, 0)}); select_n(x > 0, x, -x); select(x > 0, x, x * 2); expand_dims(x, (0, 2)); transpose(x, (1, 0)); split(x, (1, 3), axis=0); iota(jnp.int32, 5) * x; stop_gradient(x) * x}",
            "x float32[4,5] normal",
            "vd2",
        ),
    ),
    "contractions": (
        (
            "lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))){; , preferred_element_type={jnp.float32; jnp.int32}})",
            "x {float32; bfloat16; int8; float16; uint8; int32}[2,3,4] normal, y {float32; bfloat16; int8}[2,4,5] normal",
            "v",
        ),
        (
            "lax.dot_general(x, y, ({((1,), (1,)), ((), ()); ((0,), (0,)), ((1,), (1,)); ((), ()), ((0, 1), (0, 1)); ((0, 1), (0, 1)), ((), ()); ((), ()), ((1,), (1,)); ((1, 0), (1, 0)), ((), ())}){; , precision='highest'}{; , preferred_element_type=jnp.float32})",
            "x {d := float32; complex64; float32}[3,4] normal, y {d}[3,4] normal",
            "vd2",
        ),
        (
            "jnp.einsum('{ij,kj->ik; ij,ij->i; ij,ij; ij,kl->ijkl; ij,kj->; i...,k...->...; ij,kj->jik; ji,jk->ik; ij,kl->jl}', x, y{; , preferred_element_type=jnp.float32; , optimize='optimal'})",
            "x {float32; bfloat16; complex64; int8; bool}[3,4] normal, y {float32; bfloat16; int32; bool}[3,4] normal",
            "v",
        ),
        (
            "jnp.einsum('{iij->j; iji->ij; iii->; iij->ji; ijk->kji; ijk->}', x)",
            "x {float32; int8; complex64}[3,3,3] normal",
            "vd2",
        ),
        (
            "jnp.{matmul; dot; inner; tensordot; vdot; vecdot; matvec; vecmat}(x, y)",
            "x {float32; int8; uint8; bool; bfloat16; complex64}[{4,4; 4; 2,4,4}] normal, y {float32; int32; bool; bfloat16}[{4,4; 4}] normal",
            "v",
        ),
        (
            "lax.conv_general_dilated(x, y, {(1, 1); (2, 1)}, {'SAME'; 'VALID'; ((1, 0), (2, 1)); ((0, 0), (-1, 1)); 'SAME_LOWER'}{; , lhs_dilation=(2, 1)}{; , rhs_dilation=(1, 2)}, dimension_numbers={a := ('NCHW', 'OIHW', 'NCHW'); ('NCHW', 'OIHW', 'NHWC'); ('NCHW', 'OIHW', 'HWNC'); ('NCWH', 'OIWH', 'CNHW'); ('CNHW', 'IOHW', 'NCHW'); None})",
            "x {float32; bfloat16; float32}[2,2,5,6] normal, y float32[2,2,{3,2; 1,3; 2,2}] normal",
            "vd2",
        ),
        (
            "lax.conv_general_dilated(x, y, (1, 1), {'SAME'; 'VALID'}, feature_group_count=2, dimension_numbers=('NHWC', 'HWIO', '{NHWC; NCHW; HWCN}'))",
            "x float32[2,4,5,4] normal, y float32[2,3,2,{4; 6}] normal",
            "vd2",
        ),
        (
            "lax.conv_general_dilated(x, y, ({1; 2},), {'SAME'; 'VALID'; ((3, 2),)}, batch_group_count=2, dimension_numbers=('{NWC; NCW}', 'WIO', 'NWC'))",
            "x float32[4,6,6] normal, y float32[3,6,{2; 4}] normal",
            "vd",
        ),
        (
            "lax.conv_general_dilated(x, y, (1,), 'SAME', dimension_numbers=('NWC', 'WIO', 'NWC'){; , preferred_element_type=jnp.float32})",
            "x {int8; bfloat16; float16; complex64; int32}[2,5,2] normal, y {int8; bfloat16; float16; complex64; int32}[3,2,2] normal",
            "v",
        ),
        (
            "lax.{conv_transpose(x, y, ({1; 2; 3},), {'SAME'; 'VALID'; ((1, 2),)}, dimension_numbers=('NHC', 'HIO', 'NHC'){; , transpose_kernel=True; , rhs_dilation=(2,)}); conv(x, y, (2,), 'SAME')}",
            "x float32[2,2,2] normal, y float32[{3; 2; 4},2,2] normal",
            "vd2",
        ),
        (
            "lax.conv_general_dilated_{patches(x, {(2, 2); (3, 1)}, (1, 1), {'SAME'; 'VALID'}); local(x, jnp.ones((2, 8, 4, 5)), (1, 1), 'VALID', (2, 2))}",
            "x float32[1,2,5,6] normal",
            "v",
        ),
        (
            "jsp.signal.{convolve2d(x, y, '{full; same; valid}'); correlate2d(x, y, '{full; same; valid}'); fftconvolve(x, y, '{full; same; valid}'); convolve(x, y, '{full; same}'); correlate(x, y, '{full; same}')}",
            "x {float32; complex64}[5,6] normal, y {float32; complex64}[3,2] normal",
            "vd",
        ),
        (
            "jsp.signal.{detrend(x, type='{linear; constant}'); stft(x, nperseg=4)[2]; welch(x, nperseg=4)[1]; csd(x, y, nperseg=4)[1]}",
            "x float32[12] normal, y float32[12] normal",
            "vd",
        ),
        (
            "jnp.fft.{fft; ifft; rfft; irfft; hfft; ihfft}(x, n={None; 4; 7; 1; 9}, axis={0; 1; -1}, norm={None; 'ortho'; 'forward'; 'backward'})",
            "x {float32; complex64; bfloat16; int32; float16}[3,6] normal",
            "v",
        ),
        (
            "jnp.fft.{fft; ifft; irfft; hfft}(x, n={None; 4; 7; 5}, axis={0; 1}, norm={None; 'ortho'; 'forward'})",
            "x {float32; complex64}[5,6] normal",
            "vd2w",
        ),
        (
            "jnp.fft.{rfft; ihfft}(x, n={None; 4; 7; 5}, axis={0; 1}, norm={None; 'ortho'; 'forward'})",
            "x float32[5,6] normal",
            "vd2w",
        ),
        (
            "jnp.fft.{fft2; ifft2; fftn; ifftn; irfft2; irfftn}(x{; , s=(3, 4); , s=(5, 7); , axes=(1, 0); , axes=(0, 1), norm='ortho'})",
            "x {float32; complex64}[4,6] normal",
            "vd",
        ),
        (
            "jnp.fft.{rfft2; rfftn}(x{; , s=(3, 4); , s=(5, 7); , axes=(1, 0); , axes=(0, 1), norm='ortho'})",
            "x float32[4,6] normal",
            "vd2",
        ),
        (
            "{jsp.fft.dct(x{; , n=4; , norm='ortho'; , axis=0}); jsp.fft.idct(x{; , norm='ortho'; , n=5}); jsp.fft.dctn(x{; , norm='ortho'; , s=(3, 4)}); jsp.fft.idctn(x); jnp.fft.fftshift(x{; , axes=0}); jnp.fft.ifftshift(x{; , axes=1}); jnp.fft.fftfreq(6, {1.; 0.5}) * x; jnp.fft.rfftfreq(10) * x}",
            "x float32[4,6] normal",
            "vd",
        ),
        (
            "lax.{ragged_dot(x, y, jnp.array([2, 1, 3])); ragged_dot(x, y, jnp.array([0, 4, 1]))}",
            "x float32[6,3] normal, y float32[3,3,2] normal",
            "vd",
        ),
        (
            "jax.image.resize(x, {(3, 7); (8, 9); (2, 2); (4, 5)}, '{nearest; linear; cubic; lanczos3; lanczos5}', antialias={True; False})",
            "x {float32; bfloat16}[4,5] normal",
            "vd",
        ),
        (
            "jsp.ndimage.map_coordinates(x, [y, z], order={0; 1}, mode='{constant; nearest; wrap; mirror; reflect}', cval={0.0; 3.5})",
            "x float32[4,5] normal, y float32[6] {normal; around; large}, z float32[6] {normal; around}",
            "vd",
        ),
    ),
    "sparse": (
        (
            "BCOO.fromdense(x{; , nse=14; , n_batch=1; , n_dense=1}){; .T; .sum_duplicates(); .sort_indices()} @ y",
            "x {float32; int32; complex64; bfloat16}[4,4] sparse, y {float32; int32}[{4; 4,2}] normal",
            "v",
        ),
        (
            "BCSR.fromdense(x{; , nse=14}) @ y",
            "x {float32; int32}[4,5] sparse, y {float32; bfloat16}[{5; 5,2}] normal",
            "v",
        ),
        (
            "({y @ BCOO.fromdense(x, nse=12); BCOO.fromdense(x, nse=12) @ y; y @ BCSR.fromdense(x, nse=12); (BCOO.fromdense(x, nse=12) * y).todense(); (BCOO.fromdense(x, nse=12) @ BCOO.fromdense(y, nse=14)).todense(); (BCOO.fromdense(x, nse=12) + BCOO.fromdense(y, nse=9)).todense(); (BCOO.fromdense(x, nse=12) * BCOO.fromdense(y, nse=9)).todense(); BCOO.fromdense(x, nse=12).sum({0; 1}).todense()})",
            "x float32[4,4] sparse, y float32[4,4] {normal; sparse}",
            "vd",
        ),
        (
            "BCOO.fromdense(x, nse={12; 14; 16}{; , n_dense=1; , n_batch=1}){.sum(0); .sum(); .T; .reshape(2, 8); [1]; [1:3]; [:, 1]; [-1]; [None]; .reshape(4, 2, 2); * 2.5; .astype('bfloat16'); .transpose((1, 0)); [:, ::2]; .sum(1)}{; .todense()}",
            "x float32[4,4] sparse",
            "v",
        ),
        (
            "(lambda a: (a.data, a.indices, a.nse))(sparse.{bcoo_fromdense(x, nse=16, n_batch={0; 1}, n_dense={0; 1}); bcoo_sum_duplicates(BCOO((x.ravel(), y), shape=(4, 4)){; , nse=10}); bcoo_sort_indices(BCOO((x.ravel(), y), shape=(4, 4))); bcoo_slice(BCOO((x.ravel(), y), shape=(4, 4)), start_indices=(1, 0), limit_indices=(3, 4)); bcoo_transpose(BCOO((x.ravel(), y), shape=(4, 4)), permutation=(1, 0)); bcoo_concatenate([BCOO((x.ravel(), y), shape=(4, 4))] * 2, dimension={0; 1}); bcoo_broadcast_in_dim(BCOO((x.ravel(), y), shape=(4, 4)), shape=(2, 4, 4), broadcast_dimensions=(1, 2)); bcoo_reduce_sum(BCOO((x.ravel(), y), shape=(4, 4)), axes=({0; 1},)); bcoo_rev(BCOO((x.ravel(), y), shape=(4, 4)), dimensions=(0,)); bcoo_squeeze(BCOO((x.ravel(), y[:, :1]), shape=(4,)), dimensions=()); bcoo_dynamic_slice(BCOO((x.ravel(), y), shape=(4, 4)), (y[0, 0], 1), (2, 3)); bcoo_update_layout(BCOO((x.ravel(), y), shape=(4, 4)), n_batch=0)})",
            "x float32[2,4] normal, y int32[8,2] within",
            "v",
        ),
        (
            "BCOO((x, y), shape=({4; 3}, {4; 3})).{todense(); sum(0).todense(); T.todense(); sum_duplicates(nse=8).todense()}",
            "x {float32; int32; bfloat16; complex64}[8] normal, y int32[8,2] {within; counts}",
            "v",
        ),
        (
            "sparse.sparsify(lambda a, b: {a @ b; (a * 2) @ b; jnp.sum(a * b, {0; 1}); a.T @ b; -a; jnp.sin(b) @ a; a * b; lax.dot_general(a, b, (((0,), (0,)), ((), ()))); jnp.sum(a) * b; lax.cond(b[0, 0] > 0, lambda v: v * 2, lambda v: v * 3, a); jax.jit(lambda u, v: u @ v)(a, b); lax.scan(lambda c, t: (c, a @ t), 0., b)[1]; abs(a); a[1:3]; a.reshape(2, 8); jnp.squeeze(a[None]); a.sum(0); a.astype('float16'); lax.fori_loop(0, 2, lambda i, v: v * 2, a)})(BCOO.fromdense(x, nse={12; 16}), y)",
            "x float32[4,4] sparse, y float32[4,4] normal",
            "",
        ),
        (
            "sparse.{grad; value_and_grad}(lambda a: jnp.{sum(jnp.sin(a @ y)); sum((a @ y) ** 2); sum((a * y).data); prod(a.sum({0; 1}).todense()[:2])})(BCOO.fromdense(x, nse={9; 12; 16}))",
            "x float32[4,4] sparse, y float32[4,4] normal",
            "",
        ),
        (
            "sparse.{jacfwd; jacrev; jacobian}(lambda a: a @ y[0])(BCOO.fromdense(x, nse=9)){; .todense()}",
            "x float32[4,4] sparse, y float32[4,4] normal",
            "",
        ),
        (
            "jax.grad(lambda d: jnp.sum(jnp.sin({BCOO((d, y), shape=(4, 4)) @ z; z @ BCOO((d, y), shape=(4, 4)); (BCOO((d, y), shape=(4, 4)) * z).todense(); BCOO((d, y), shape=(4, 4)).todense() * z; (BCOO((d, y), shape=(4, 4)) @ BCOO.fromdense(z)).todense(); BCOO((d, y), shape=(4, 4)).sum_duplicates(nse=8).todense() * z; BCOO((d, y), shape=(4, 4)).sum(0).todense() * z[0]; BCOO((d, y), shape=(4, 4))[1:].todense() * z[1:]})))(x)",
            "x float32[8] normal, y int32[8,2] {within; counts}, z float32[4,4] normal",
            "v",
        ),
        (
            "sparse.{COO; CSR; CSC; BCOO; BCSR}.fromdense(x){; .T} @ y",
            "x {float32; int32; complex64}[4,4] sparse, y float32[{4; 4,3}] normal",
            "",
        ),
        (
            "sparse.bcoo_dot_general(BCOO.fromdense(x, nse={24; 30}), y, dimension_numbers=({((2,), (1,)), ((0,), (0,)); ((1,), (1,)), ((0,), (0,)); ((0, 2), (0, 1)), ((), ()); ((2,), (2,)), ((), ())}))",
            "x float32[2,3,5] sparse, y float32[2,{5; 3},5] normal",
            "",
        ),
        (
            "sparse.bcoo_dot_general_sampled(x, y, z, dimension_numbers=(((1,), (0,)), ((), ())))",
            "x float32[4,3] normal, y float32[3,5] normal, z int32[6,2] {within; counts}",
            "vd",
        ),
        (
            "sparse.{bcoo_multiply_dense(BCOO.fromdense(x, nse=12), y).todense(); bcoo_multiply_sparse(BCOO.fromdense(x, nse=12), BCOO.fromdense(x.T, nse=12)).todense(); bcoo_reshape(BCOO.fromdense(x, nse=12), new_sizes=(2, 8)).todense(); empty((4, 4)).todense() + x; eye(4, k=1) @ x; random_bcoo(random.key(0), (4, 4), nse=0.4).todense() * x; bcoo_extract(BCOO.fromdense(x, nse=12), y).data; bcsr_extract(BCSR.fromdense(x, nse=12).indices, BCSR.fromdense(x, nse=12).indptr, y)}",
            "x float32[4,4] sparse, y float32[4,4] normal",
            "",
        ),
        (
            "sparse.linalg.spsolve(BCSR.fromdense(x).data, BCSR.fromdense(x).indices, BCSR.fromdense(x).indptr, y)",
            "x float32[4,4] regular, y float32[4] normal",
            "",
        ),
        (
            "jsp.sparse.linalg.{cg; gmres; bicgstab}(lambda v: x @ v, y, tol=1e-6, maxiter=30)[0]",
            "x float32[3,3] spd, y float32[3] normal",
            "vd",
        ),
    ),
    "references": (
        (
            "r = jax.new_ref(x); {r[...] = r[...] * 2; r[1] = r[0] + y[0]; r[1:3] += y[:2, None]; r[:, 1] = y; r[0:4:2] = r[1:4:2]; r[z] = 5.0; r[z, 1] += y[:3]; r[-1] = r[1]; r[z[0]] *= y[0]; r[...] += y[:, None]}; {r[0] = r[1] + 1; r[z] = r[z] * 2; r[:, :2] = r[:, 1:3]; pass; r[...] = jnp.sin(r[...])}; return r[...]{; , r[1]; , r[z]; , r[:, 0]; , r[z, 1]; , r[-1, 1:3]}",
            "x float32[4,3] normal, y float32[4] normal, z int32[3] within",
            "vd2",
        ),
        (
            "r = jax.new_ref(x); {a = ref.swap(r, z, y[:3, None] * jnp.ones((3, 3))); a = ref.swap(r, 1, y[:3]); a = ref.get(r, (z, 1)); ref.addupdate(r, z, jnp.ones((3, 3)) * y[0]); ref.addupdate(r, (slice(1, 3), 0), y[:2]); ref.set(r, (z, z), y[:3]); ref.addupdate(r, ..., x)}; return r[...]",
            "x float32[4,3] normal, y float32[4] normal, z int32[3] within",
            "vd2",
        ),
        (
            "r = jax.new_ref(jnp.zeros(3)); lax.fori_loop(0, {4; z}, lambda i, c: ref.{addupdate(r, {i % 3; ...; (i + 1) % 3}, x[i] * y); set(r, i % 3, x[i] * r[i % 3] + y)}, None); return r[...]",
            "x float32[4] normal, y float32[] normal, z int32[] counts",
            "v",
        ),
        (
            "def g(c, t):\n    r = jax.new_ref(c)\n    r[{0; 1; -1}] = t * r[{0; 2}]\n    {r[...] += t; r[1:] = r[:-1]; r[1] = r[1] * c[0]; r[...] = jnp.cumsum(r[...])}\n    return {r[...]; jax.freeze(r)}, c.sum()\nreturn lax.scan({g; jax.checkpoint(g); jax.jit(g)}, x, y, reverse={True; False})",
            "x float32[3] normal, y float32[4] normal",
            "vd2",
        ),
        (
            "r = jax.new_ref(x)\ndef g(c, t):\n    r[{0; t % 3; 1}] += {c; y[0]; c * r[1]}\n    return c * 0.5 + {r[0]; r[...].sum(); 1.0}, {r[...]; r[1]; c}\na = lax.scan(g, y[1], jnp.arange(3))\nreturn a, r[...]",
            "x float32[3] normal, y float32[2] normal",
            "vd2",
        ),
        (
            "r = jax.new_ref(x); s = jax.new_ref(y)\ndef g():\n    r[0] = s[1] * 2\n    s[...] = r[:2] + s[...]\ndef h():\n    {s[0] = 1.0; r[...] = r[...] * s[0]; pass}\nlax.cond({x[0] > 0; y[1] < 0; True}, g, h)\nreturn r[...], s[...]",
            "x float32[3] normal, y float32[2] normal",
            "vd2",
        ),
        (
            "r = jax.new_ref(x); jax.{jit; checkpoint}(lambda v: r.__setitem__({1; ...}, v * r[0]))({y[0]; y[1]})\nreturn r[...]",
            "x float32[3] normal, y float32[2] normal",
            "vd",
        ),
        (
            "r = jax.new_ref(x); a = jax.vmap(lambda i, v: r[i] * v)(z, y)\nreturn a, r[...]",
            "x float32[3,2] normal, y float32[4] normal, z int32[4] within",
            "vd",
        ),
        (
            "r = jax.new_ref(x); jax.vmap(lambda i, v: ref.addupdate(r, i, v))(z, y)\nreturn r[...]",
            "x float32[3] normal, y float32[4] normal, z int32[4] within",
            "v",
        ),
        (
            "r = jax.new_ref(x)\ndef body(s):\n    r[s[0] % 3] = r[(s[0] + 1) % 3] {+; *} y[0]\n    return s[0] + 1, s[1] + r[0]\ns = lax.while_loop(lambda s: (s[0] < {4; z}) & (s[1] < 50), body, (0, y[1]))\nreturn s, r[...]",
            "x float32[3] normal, y float32[2] normal, z int32[] counts",
            "v",
        ),
        (
            "def g(a):\n    r = jax.new_ref(jnp.zeros_like(a))\n    for i in range(3):\n        r[i] = jnp.sin(a[i]) * {r[i - 1]; (1 + r[(i + 1) % 3]); a[i - 1]}\n    return r[...]\nreturn jax.{jacrev; jacfwd; jit; checkpoint; hessian}({g; jax.jit(g)})(x)",
            "x float32[3] normal",
            "vd",
        ),
        (
            "@jax.custom_vjp\ndef g(a): return jnp.sin(a) * a\ndef fwd(a):\n    r = jax.new_ref(a)\n    r[0] = r[1]\n    return g(a), r[...]\ng.defvjp(fwd, lambda a, ct: (ct * jnp.cos(a),))\nr = jax.new_ref(x); r[...] = g(r[...]); r[1] += g(y)[0]\nreturn r[...]",
            "x float32[3] normal, y float32[2] normal",
            "vd",
        ),
        (
            "r = jax.new_ref({jnp.zeros(3); y}); a = jax.grad(lambda v: jnp.sum(jnp.sin(grad_spy(v, r)) * v))(x); return a, r[...]",
            "x float32[3] normal, y float32[3] normal",
            "v",
        ),
        (
            "r = jax.new_ref(x); s = r.at[{1:; 0:2; 1:3}]; s[...] = y * s[...]; {s[0] += 1.0; s[...] *= 2.0; pass}; return r[...], s[...]",
            "x float32[3] normal, y float32[2] normal",
            "vd",
        ),
        (
            "r = jax.new_ref(x); r[{1; 0; -1; 1:; y % 3}] = {300; 2.5; -1; True; y}; return r[...]",
            "x {int8; uint8; float32; bfloat16; int32}[3] normal, y int32[] index",
            "v",
        ),
    ),
    "callbacks": (
        (
            "jax.pure_callback(lambda a: np.{sin; cumsum; flipud; square}(a).astype(a.dtype), x, x{, vmap_method='sequential'; , vmap_method='expand_dims'; , vmap_method='broadcast_all'; , vmap_method='legacy_vectorized'; , vmap_method='sequential_unrolled'}) * 2",
            "x {float32; int32; bfloat16; bool; complex64}[4] normal",
            "v",
        ),
        (
            "jax.pure_callback(lambda a, b: (np.asarray(a + b.sum(), np.float32), np.int32(a.size)), (jax.ShapeDtypeStruct(jnp.shape(x), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)), x, y, vmap_method='{sequential; sequential_unrolled}')",
            "x float32[3] normal, y float32[2] normal",
            "v",
        ),
        (
            "lax.scan(lambda c, t: (c + jax.pure_callback(lambda a: np.float32(a * 2), jax.ShapeDtypeStruct((), jnp.float32), t{; , vmap_method='sequential'}), c), y, x)",
            "x float32[4] normal, y float32[] normal",
            "v",
        ),
        (
            "lax.{cond(y > 0, lambda v: jax.pure_callback(np.sin, v, v, vmap_method='expand_dims'), lambda v: v * 3, x); fori_loop(0, 3, lambda i, v: jax.pure_callback(lambda a, i: (a + i).astype(a.dtype), v, v, i, vmap_method='sequential'), x); map(lambda v: jax.pure_callback(lambda a: a * 2, v, v), x); while_loop(lambda v: v[0] < 20, lambda v: jax.pure_callback(lambda a: a + 7, v, v, vmap_method='expand_dims'), x)}",
            "x float32[4] normal, y float32[] normal",
            "v",
        ),
        (
            "@jax.custom_jvp\ndef g(v): return jax.pure_callback(np.sin, v, v, vmap_method='{expand_dims; broadcast_all; sequential}')\ng.defjvp(lambda p, t: (g(*p), jnp.cos(p[0]) * t[0]))\nreturn g(x) * {g(x); x; 2}{; + g(g(x))}",
            "x float32[4] normal",
            "vd2",
        ),
        (
            "@jax.custom_vjp\ndef g(v, w): return jax.pure_callback(lambda a, b: np.float32(a * b), jax.ShapeDtypeStruct((), jnp.float32), v, w, vmap_method='{sequential; sequential_unrolled}')\ng.defvjp(lambda v, w: (g(v, w), (v, w)), lambda r, ct: (ct * r[1], jax.pure_callback(lambda c, a: np.float32(c * a), jax.ShapeDtypeStruct((), jnp.float32), ct, r[0], vmap_method='sequential')))\nreturn {jax.vmap(g)(x, y); g(x[0], y[1]) * x; lax.map(lambda t: g(*t), (x, y)); lax.scan(lambda c, t: (g(c, t), c), x[0], y); jax.checkpoint(jax.vmap(g))(x, y)}",
            "x float32[4] normal, y float32[4] normal",
            "vd",
        ),
        (
            "seen.clear()\na = {lax.scan(lambda c, t: (io(c * t), c + t), y, x); lax.fori_loop(0, 4, lambda i, c: io(c + x[i]), y); lax.map(lambda t: io(t + y), x); (io(x[0]), io(x[1]) + io(y)); lax.cond(y > 0, lambda: io(y), lambda: io(x[0])); jax.jit(lambda v: io(v) + io(v + 1))(y); lax.while_loop(lambda c: c < 3, lambda c: io(c) + 1, jnp.abs(y)); lax.switch(jnp.int32(x[0]), [lambda: io(y), lambda: io(y + 1), lambda: io(-y)])}\njax.effects_barrier()\nreturn a, log()",
            "x float32[4] normal, y float32[] normal",
            "s",
        ),
        (
            "seen.clear()\ndef g(v):\n    jax.debug.callback(note, v{; , ordered=True})\n    return jnp.sin(v) * y\na = {lax.scan(lambda c, t: (g(c), t), y, x)[0]; jax.vmap(g)(x); jax.grad(g)(y); jax.jvp(g, (y,), (y,)); jax.checkpoint(g)(y); jax.grad(jax.checkpoint(g))(y); lax.cond(y > 0, g, lambda v: v, y); jax.jit(g)(y); lax.map(g, x); jax.linearize(g, y)[0]; jax.vmap(jax.grad(g))(x); jax.vmap(lambda v: lax.cond(v > 0, g, jnp.cos, v))(x); jax.hessian(g)(y)}\njax.effects_barrier()\nreturn a, log()",
            "x float32[4] normal, y float32[] normal",
            "s",
        ),
        (
            "seen.clear()\na = jax.vmap(lambda v: jax.{experimental.io_callback(tell, jax.ShapeDtypeStruct((), jnp.float32), v); pure_callback(lambda w: np.asarray(w * 2, np.float32), jax.ShapeDtypeStruct((), jnp.float32), v, vmap_method='{sequential; expand_dims; broadcast_all}')})(x)\njax.effects_barrier()\nreturn a, log()",
            "x float32[4] normal",
            "s",
        ),
    ),
    "collectives": (
        (
            "jax.shard_map(lambda a, b: "
            + STEPS
            + ", mesh=mesh, in_specs=({P('x'); P('y'); P(('x', 'y')); P(None, 'x')}, P()), out_specs={P('x'); P(('x', 'y')); P('x', None)}, check_vma=False)(x, y)",
            "x float32[8,8] normal, y float32[8] normal",
            "vd",
        ),
        (
            "jax.shard_map(lambda a, b: "
            + STEPS
            + ", mesh=mesh, in_specs=(P('x'), P()), out_specs={P('x'); P(('x', 'y')); P('x', 'y')}, check_vma={True; False})(x, y)",
            "x float32[8,8] normal, y float32[8] normal",
            "vd2",
        ),
        (
            "jax.shard_map(lambda a, b: lax.{psum; pmean; pmax; pmin}({a; b * a; lax.stop_gradient(a); (a * b).sum(0)}, {'x'; ('x',)}), mesh=mesh, in_specs=(P('x'), P()), out_specs=P(), check_vma={True; False})(x, y)",
            "x float32[8,8] normal, y float32[8] normal",
            "vd",
        ),
        (
            "jax.shard_map(lambda a, b: lax.psum({a.sum() * b; (a @ b).sum(); jnp.sin(a).sum(0) + b}, ('x', 'y')), mesh=mesh, in_specs=(P('x', 'y'), P('y')), out_specs=P(), check_vma={True; False})(x, y)",
            "x float32[8,8] normal, y float32[8] normal",
            "vd2",
        ),
        (
            "jax.shard_map(lambda a, b: lax.scan(lambda c, t: (c + 0.1 * lax.psum(t, 'x'), c * b), {a[0] * 0; a[0]}, a), mesh=mesh, in_specs=(P('x'), P()), out_specs=(P('x'), P('x')), check_vma={True; False})(x, y)",
            "x float32[8,8] normal, y float32[8] normal",
            "vd",
        ),
        (
            "jax.shard_map(jax.{jit; checkpoint}(lambda a, b: lax.cond(lax.axis_index('{x; y}') > 0, lambda: a * 2, lambda: a + b)), mesh=mesh, in_specs=(P('x', 'y'), P('y')), out_specs=P('x', 'y'), check_vma={True; False})(x, y)",
            "x float32[8,8] normal, y float32[8] normal",
            "vd",
        ),
        (
            "jax.vmap(lambda a: {lax.psum(a, 'i'); lax.pmean(a, 'i'); lax.all_gather(a, 'i'); lax.all_gather(a, 'i', axis=1, tiled=True); lax.ppermute(a, 'i', [(0, 1), (1, 2), (3, 0)]); lax.pmax(a, 'i'); lax.axis_index('i') * a; lax.psum_scatter(a, 'i'); lax.psum_scatter(a, 'i', tiled=True); lax.all_to_all(a, 'i', 0, {0; 1}); lax.pshuffle(a, 'i', [2, 0, 1, 3]); lax.psum(1, 'i') * a; lax.psum(a, 'i', axis_index_groups=[[0, 1], [2, 3]])}, axis_name='i', in_axes={0; 1; -1}, out_axes={0; 1})(x)",
            "x float32[4,4,4] normal",
            "vd",
        ),
        (
            "jax.jit(lambda a, b: {a @ b; a * b; a + b.T; jnp.einsum('ij,jk->ik', a, b); jnp.concatenate([a, b]); a.reshape(-1); a.sum({0; 1}); jnp.cumsum(a, 0); jnp.sort(a, -1); a[1:5]; jnp.where(a > 0, a, b); jnp.fft.fft(a); lax.scan(lambda c, t: (c + t, c), a[0], b); jnp.argmax(a, {0; 1}); jnp.roll(a, 1, 0); jnp.linalg.norm(a, axis=0)}, out_shardings={None; None; NamedSharding(mesh, P())})(jax.device_put(x, NamedSharding(mesh, P({'x'; 'x', 'y'; None, 'y'; ('x', 'y')}))), jax.device_put(y, NamedSharding(mesh, P({'y'; None, 'x'; }))))",
            "x float32[8,8] normal, y float32[8,8] normal",
            "d",
        ),
    ),
    "explicit": (
        (
            "with jax.set_mesh(emesh):\n    a = jax.device_put(x, P({'x'; 'x', 'y'; None, 'y'; None; 'y'; ('x', 'y')})); b = jax.device_put(y, P({'x'; 'x', 'y'; None, 'y'; None; None, 'x'}))\n    f = lambda a, b: {a * 2 + jnp.sin(b); a + b; a * b[0]; jnp.where(a > 0, a, b); a.T + b; a.sum({0; 1}); a.max(0); a[:, None] * b; a.reshape(8, 2, 4); jnp.transpose(a); jnp.matmul(a, b, out_sharding=P('x', 'y')); jnp.einsum('ij,kj->ik', a, b, out_sharding=P('x')); jnp.cumsum(a, {0; 1}); jnp.sort(a, 0); jnp.concatenate([a, a], {0; 1}); jnp.stack([a, b]); jnp.argmax(a, 1); jax.reshard(a, P('y')) * 2; jnp.broadcast_to(a[None], (2, 8, 8)); nn.softmax(a, -1); a.astype('bfloat16'); lax.scan(lambda c, t: (c * 0.5, c + t), a[0], a)[1]; lax.cond(x[0, 0] > 0, lambda v: v * 2, jnp.cos, a); jnp.pad(a, 1); a[2]; a[:, 1:3]; jnp.expand_dims(a, 1); jnp.mean(a, 1, keepdims=True); a @ b; jax.vmap(lambda u, v: u * v)(a, a); jax.vmap(jnp.sum, in_axes=1)(a); jnp.squeeze(a[None]); jnp.flip(a, 0); lax.map(jnp.sin, a); jnp.tril(a); jnp.diff(a, axis=0); jnp.repeat(a, 2, axis=1); jnp.tile(a, (1, 2)); jnp.take(a, jnp.array([1, 0]), axis=0); a.at[1].set(0.0)}\n    {g = f; g = jax.jit(f); g = lambda a, b: jax.grad(lambda *p: jnp.sum(jnp.sin(f(*p)).astype('float32')), {0; 1})(a, b); g = jax.jit(jax.grad(lambda *p: jnp.sum(f(*p).astype('float32') ** 2), (0, 1))); g = lambda a, b: jax.jvp(f, (a, b), (a, b))}\n    c = g(a, b)\n    return c, specs(c)",
            "x float32[8,8] normal, y float32[8,8] normal",
            "s",
        ),
    ),
    "export": (
        (
            "exported(lambda a, b: {jnp.sin(a) @ b; jnp.linalg.solve(a, b); lax.scan(lambda c, t: (c + t, c * t), a[0], b); jnp.sort(a, 0); jnp.cumsum(a * b); jnp.fft.fft(a).real; nn.softmax(a @ b); lax.cond(a[0, 0] > 0, lambda: a, lambda: b); lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * 2), (0, a))[1]; random.normal(random.key(3), (3,)) * a; jax.grad(lambda v: jnp.sum(jnp.sin(v) * b))(a); a.at[1].set(b[0]); (a > b, a.astype('bfloat16'), jnp.int8(3)); dict(u=a, v=[b, a * 2]); jnp.linalg.eigh(a + a.T)[0]; jax.checkpoint(jnp.tanh)(a) * b; jnp.median(a, 0); special.gammaln(jnp.abs(a) + 1); random.key_data(random.split(random.key(1))); lax.conv(a[None, None], b[None, None, :2, :2], (1, 1), 'SAME')}, 0)(x, y)",
            "x float32[3,3] regular, y float32[3,3] normal",
            "",
        ),
        (
            "exported(lambda a, b: {jnp.sin(a) @ b; jnp.linalg.solve(a, b); lax.scan(lambda c, t: (c + t, c * t), a[0], b); jnp.cumsum(a * b, 0); nn.softmax(a @ b); lax.cond(a[0, 0] > 0, lambda: a, lambda: b); a.at[1].set(b[0]); dict(u=a, v=[b, a * 2]); jax.checkpoint(jnp.tanh)(a) * b; jnp.max(a, 0) * b; special.gammaln(jnp.abs(a) + 1); jnp.linalg.det(a) * b; lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) * b, a)}, 1)(x, y)",
            "x float32[3,3] regular, y float32[3,3] normal",
            "d",
        ),
        (
            "symbolic(lambda a: {a.sum({0; 1}); jnp.sin(a) * a.shape[0]; a.reshape(-1); a.reshape(a.shape[1], a.shape[0]); a @ a.T; jnp.concatenate([a, a], 0); a[1:]; a[:-1]; a[::-1]; a[::2]; jnp.arange(a.shape[0]) * 2; jnp.cumsum(a, 0); jnp.sort(a, 0); jnp.pad(a, ((1, a.shape[1]), (0, 0))); a[a.shape[0] - 1]; jnp.mean(a, 0); jnp.var(a, 0); jnp.tile(a, (2, 1)); jnp.eye(a.shape[0]) @ a; a[None] * a[:, None]; jnp.where(jnp.arange(a.shape[0])[:, None] > 1, a, 0); lax.scan(lambda c, t: (c + t, c), a[0] * 0, a); jax.vmap(jnp.sum)(a); jnp.roll(a, 1, 0); jnp.einsum('ij,ik->jk', a, a); jax.grad(lambda v: jnp.sum(jnp.sin(v) * v.shape[0]))(a); jnp.argmax(a, 0); lax.dynamic_slice_in_dim(a, 1, 2, 0); jnp.broadcast_to(a[0], a.shape); jnp.ones((a.shape[0] * 2, a.shape[1] // 2 + 1)); jnp.full(a.shape[0], a.shape[1] % 3); lax.fori_loop(0, a.shape[0], lambda i, c: c + a[i], a[0]); jnp.repeat(a, 2, axis=0); jnp.take(a, jnp.array([-1, 0]), axis=0); nn.softmax(a, 0); jnp.diag(a[:, 0]); jnp.stack([a, a], 1); a.T.reshape(-1, 2); jnp.split(a, 2, axis=0)[1]; jnp.flip(a); jnp.linspace(0, 1, a.shape[0]); jnp.max(a, initial=0.5); jnp.percentile(a, 30, axis=0)}, '{n, m; n, 4; 2*n, m; n, n; n + 1, m; 6, m}')(x)",
            "x float32[{4,4; 6,4}] normal",
            "",
        ),
    ),
    "nests": (
        (
            "@jax.custom_jvp\ndef g(a, b): return a * jnp.sin(b)\ng.{defjvp(lambda p, t: (g(*p), t[0] * jnp.sin(p[1]) + {p[0] * jnp.cos(p[1]); g(p[0], p[1] + 1); 0.5} * t[1])); defjvps(lambda t, o, a, b: t * o, {lambda t, o, a, b: t * a; None})}\nreturn {g(x, y); jax.vmap(g)(x, y); g(g(x, y), x); jax.jit(g)(x, y); lax.scan(lambda c, t: (g(c, t), c), x[0], y); jax.checkpoint(g)(x, y); lax.cond(x[0] > 0, g, lambda a, b: b, x, y); jax.grad(lambda v: g(v, y).sum())(x); jax.jvp(g, (x, y), (y, x)); lax.map(lambda t: g(*t), (x, y)); lax.fori_loop(0, 2, lambda i, c: g(c, y), x)}",
            "x float32[3] normal, y float32[3] normal",
            "vd2",
        ),
        (
            "@jax.custom_vjp\ndef g(a, b): return {a * jnp.sin(b); dict(u=a, v=b * a); (a + b, a.sum())}\ng.defvjp(lambda a, b: (g(a, b), (a, b)), lambda r, ct: (jax.tree.map(lambda v: {v * 3; jnp.cos(v) * 2}, r[0]) {* 1; + jax.tree.leaves(ct)[0]}, {None; r[1] * 2; jax.tree.leaves(ct)[0] * r[0]}))\nh = {jax.jit(g); g; jax.checkpoint(g); jax.vmap(g)}\nreturn h(x, y)",
            "x float32[3] normal, y float32[3] normal",
            "vd",
        ),
        (
            "@jax.custom_batching.custom_vmap\ndef g(a, b): return a * b + 1\n@g.def_vmap\ndef rule(n, batched, a, b): return (a if batched[0] else jnp.broadcast_to(a, (n, *jnp.shape(a)))) * (b if batched[1] else jnp.broadcast_to(b, (n, *jnp.shape(b)))) + {1; 100}, True\nreturn {jax.vmap(g, (0, None))(x, y[0]); jax.vmap(g, (None, 0))(x[0], y); jax.vmap(g)(x, y); g(x, y); jax.jit(jax.vmap(g))(x, y); jax.jvp(jax.vmap(g), (x, y), (y, x)); lax.map(lambda t: g(*t), (x, y)); jax.vmap(jax.vmap(g, (None, 0)), (0, None))(x, y); jax.vmap(lambda a, b: lax.scan(lambda c, t: (g(c, t), c), a, jnp.stack([b, a])))(x, y)}",
            "x float32[3] normal, y float32[3] normal",
            "v",
        ),
        (
            "lax.{cond(x[0] {> 0; != 0}, lambda a, b: {a * b; jnp.sin(a); b + 0 * a; jnp.zeros(3)}, lambda a, b: {a + b; jnp.cumsum(a); a; b ** 2}, x, y); switch(z, [lambda a: a * 2, jnp.sin, lambda a: a * y, lambda a: y], x); select(x > y, x * y, y)}",
            "x float32[3] normal, y float32[3] normal, z int32[] index",
            "vd2",
        ),
        (
            "lax.scan(lambda c, t: ({(c[0] * t, c[1] + c[0]); (c[1], c[0] * jnp.sin(t)); (jnp.where(t > 0, c[0], c[1]), t); (c[0], c[1] * t)}, {c[0]; t * c[1]; (c, t); None; dict(a=c[0])}), (x[0], {1.0; y[0]}), {y; x * y}{; , reverse=True; , unroll=2; , unroll=True; , reverse=True, unroll=3})",
            "x float32[5] normal, y float32[5] normal",
            "vd2",
        ),
        (
            "lax.while_loop(lambda c: {c[0] < z; (c[0] < 5) & (c[1].sum() < 20); jnp.any(c[1] < 10) & (c[0] < 6)}, lambda c: (c[0] + 1, {c[1] * 1.5; c[1] + x; jnp.sin(c[1]) + c[0]; jnp.where(c[1] > 0, c[1], x)}), ({0; z // 2}, {y; jnp.ones(3)}))",
            "x float32[3] normal, y float32[3] normal, z int32[] counts",
            "v",
        ),
        (
            "lax.fori_loop({0; 1; z}, {4; 3}, lambda i, c: {c * x + i; c.at[i % 3].add(x[i % 3]); jnp.roll(c, i); lax.cond(i % 2 == 0, jnp.sin, lambda v: v * 2, c); c + jnp.float32(i) * y; lax.fori_loop(0, 2, lambda j, d: d * x + j, c)}, y)",
            "x float32[3] normal, y float32[3] normal, z int32[] zero",
            "vd",
        ),
        (
            "lax.associative_scan({jnp.add; jnp.multiply; jnp.maximum; lambda a, b: a * 0.5 + b; lambda a, b: b; jnp.minimum}, x, axis={0; 1; -1}{; , reverse=True})",
            "x {float32; int32; bfloat16; uint8}[5,3] {normal; nans}",
            "v2",
        ),
        (
            "lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x, y){; , reverse=True}{; , axis=1})",
            "x float32[{5; 4; 7; 1},3] normal, y float32[{5; 4; 7; 1},3] normal",
            "",
        ),
        (
            "lax.{map(lambda t: {jnp.sin(t); t * y[0]; (t, t.sum()); jnp.sort(t)}, x{; , batch_size=2; , batch_size=3; , batch_size=5}); map(lambda t: t[0] * t[1], (x, x * 2), batch_size=2)}",
            "x float32[5,3] normal, y float32[3] normal",
            "vd2",
        ),
        (
            "jax.checkpoint(lambda a, b: {jnp.sin(jnp.sin(a)) * b; jnp.tanh(a @ jnp.outer(b, b)); lax.scan(lambda c, t: (jnp.sin(c * t), c), a, jnp.stack([b, b]))[0]; jax.jit(jnp.sin)(a) * jnp.exp(b); lax.cond(a[0] > 0, jnp.sin, jnp.cos, b) * a}{; , policy=jax.checkpoint_policies.{everything_saveable; nothing_saveable; dots_saveable; checkpoint_dots; dots_with_no_batch_dims_saveable}; , prevent_cse=False; , static_argnums=()})(x, y)",
            "x float32[3] normal, y float32[3] normal",
            "vd2",
        ),
        (
            "jax.{jacfwd; jacrev; hessian; jit; checkpoint}(lambda a: {a * y; jnp.outer(a, y); jnp.cumsum(jnp.sin(a)); (a, a.sum()); dict(u=a ** 3); jnp.linalg.norm(a); jnp.sort(a) * y; nn.softmax(a)})(x)",
            "x float32[3] normal, y float32[3] normal",
            "vd",
        ),
        (
            "jax.{linearize(lambda a: {a * y; jnp.sin(a); lax.scan(lambda c, t: (c * t, c), a, jnp.stack([y, y]))[1]; jax.jit(jnp.tanh)(a)}, x)[1](y); vjp(lambda a, b: {a * b; jnp.sin(a) + b; lax.cond(a[0] > 0, jnp.multiply, jnp.add, a, b)}, x, y)[1](x); jvp(lambda a: {a * y; jax.grad(lambda v: jnp.sum(v ** 3 * y))(a); jnp.where(a > 0, a, 0)}, (x,), (y,)); value_and_grad(lambda a: jnp.sum(a * y), 0)(x); linear_transpose(lambda a: {a * 3; jnp.cumsum(a); a[::-1]; jnp.dot(a, jnp.outer(jnp.arange(3.), jnp.arange(3.)))}, x)(y)}",
            "x float32[3] normal, y float32[3] normal",
            "v2",
        ),
        (
            "jax.grad(lambda a: {jnp.sum(jnp.where(a > 0, jnp.log(jnp.where(a > 0, a, 1)), 0)); jnp.prod(a * jnp.array([0., 1., 2.])); jnp.max(a) * a[0]; jnp.sum(jnp.abs(a) ** {1; 2; 3; 0; 1.5}); jnp.linalg.norm(a * {0; 1}); jnp.sum(jnp.sqrt(a * {0; 1})); jnp.sum(jnp.minimum(a, a) * y); jnp.sum(jnp.clip(a, -0.5, 0.5)); jnp.sum(jnp.sinc(a * {0; 1})); jnp.sum(jnp.round(a) + a); jnp.sum(a % 2); jnp.sum(jnp.arctan2(a, y * {0; 1})); jnp.sum(jnp.hypot(a * 0, y * {0; 1})); jnp.std(a * {0; 1}); jnp.sum(nn.relu(a * {0; 1})); jnp.sum(jnp.sort(a)[1:]); jnp.sum(a ** a[0].astype(int)); jnp.sum(jnp.power(a * {0; 1}, {0.; 1.; 2.; y})); jnp.sum(jnp.logaddexp(a, -jnp.inf)); jnp.var(a); jnp.median(a); jnp.sum(jnp.cumprod(a * jnp.array([1., 0., 2.]))); jnp.sum(jnp.maximum(a * 0, 0)); jnp.max(a * 0); jnp.sum(jnp.fmod(a, y)); jnp.sum(jnp.nan_to_num(a / {0; 1})); jnp.sum(jnp.interp(a, jnp.array([-1., 0., 1.]), y)); jnp.sum(jnp.mod(a, y) * y); jnp.sum(jnp.heaviside(a, 0.5)); jnp.quantile(a, 0.4); jnp.sum(jnp.real(jnp.exp(1j * a))); jnp.abs(jnp.sum(a + 1j * y)); jnp.sum(jnp.angle(a + 1j * y)); jnp.sum(lax.clamp(0.0, a, 1.0)); jnp.sum(lax.reduce_precision(a, 8, 3)); jnp.sum(jnp.floor(a) * a); jnp.sum(jnp.copysign(a, y)); jnp.sum(jnp.frexp(a)[0]); jnp.sum(jnp.ldexp(a, 2)); jnp.sum(jnp.divmod(a, y)[1]); jnp.ptp(a); jnp.sum(jnp.trunc(a) * a); jnp.nanmax(a); jnp.sum(jnp.sign(a) * a)})(x)",
            "x float32[3] {normal; ties; edges}, y float32[3] {normal; positive; ties}",
            "v",
        ),
    ),
}
