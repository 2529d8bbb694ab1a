// swift-tools-version: 6.2
// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// The program of `scripts/demo`: another package, which uses what every package can. Its tests run in
// the same build, as the chain "demo" of `scripts/test`. The work that the cache saves is the program's own, so it
// is optimised in every build: the saving is not that of slow code.
let package = Package(
  name: "demo-program",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "larder", path: "../.."),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
  ],
  targets: [
    .executableTarget(
      name: "larder-demo",
      dependencies: [
        .product(name: "Larder", package: "larder"),
        .product(name: "LarderTesting", package: "larder"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      path: "Sources/LarderDemo",
      swiftSettings: [.unsafeFlags(["-O", "-whole-module-optimization", "-num-threads", "2"])]),
    .testTarget(
      name: "LarderDemoTests",
      dependencies: [
        "larder-demo",
        .product(name: "Larder", package: "larder"),
        .product(name: "LarderTesting", package: "larder"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
