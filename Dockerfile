# docker build -t ray-operator/ray-operator:0.1.0 .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin ray-operator && cp target/release/ray-operator /ray-operator

# The program needs glibc and root certificates, nothing else. There is no shell in here.
FROM gcr.io/distroless/cc-debian12
LABEL org.opencontainers.image.title="ray-operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /ray-operator /ray-operator
USER 65532:65532
EXPOSE 8080 8082
ENTRYPOINT ["/ray-operator"]
CMD ["run"]
