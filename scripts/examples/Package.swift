// swift-tools-version: 6.2
// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// Programs to copy from. `scripts/example` builds them, runs them and checks what they do.
let package = Package(
  name: "examples",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "larder", path: "../..", traits: ["Metrics"]),
    // For the web service only.
    .package(
      url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0", traits: []),
    // For the compiler cache only.
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
    .package(url: "https://github.com/apple/swift-nio-extras", from: "1.34.0"),
  ],
  targets: [
    // Hummingbird's PersistDriver over a store.
    .target(
      name: "HummingbirdLarder",
      dependencies: [
        .product(name: "Larder", package: "larder"),
        .product(name: "Hummingbird", package: "hummingbird"),
      ]),
    .executableTarget(
      name: "check-persist",
      dependencies: [
        "HummingbirdLarder",
        .product(name: "Larder", package: "larder"),
        .product(name: "Hummingbird", package: "hummingbird"),
      ],
      path: "Sources/PersistCheck"),
    .executableTarget(
      name: "example-web-service",
      dependencies: [
        "HummingbirdLarder",
        .product(name: "Larder", package: "larder"),
        .product(name: "LarderMetrics", package: "larder"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdCore", package: "hummingbird"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOExtras", package: "swift-nio-extras"),
      ],
      path: "Sources/WebService"),
    .executableTarget(
      name: "example-job-queue", dependencies: [.product(name: "Larder", package: "larder")],
      path: "Sources/JobQueue"),
    .executableTarget(
      name: "example-cc-cache",
      dependencies: [
        .product(name: "Larder", package: "larder"),
        .product(name: "Crypto", package: "swift-crypto"),
      ],
      path: "Sources/CompilerCache"),
  ],
  swiftLanguageModes: [.v6]
)
