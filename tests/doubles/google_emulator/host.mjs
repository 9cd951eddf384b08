// Hosts @emulators/google on a free loopback port until stdin closes, for the users and OAuth clients of the JSON given
// as its one argument; says where on stdout. Unlike the stock host it lets no unknown token in as the first user, and
// counts no requests (that one answers 403 after 5,000). Like Google it takes any port of a redirect to this machine.
import { Hono, Store, WebhookDispatcher, authMiddleware, createApiErrorHandler, serve } from "@emulators/core";
import { getGoogleStore, googlePlugin, seedFromConfig } from "@emulators/google";

const app = new Hono();
const server = serve({ fetch: (request) => app.fetch(request), port: 0, hostname: "127.0.0.1" });
server.on("listening", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const store = new Store();
  const tokens = new Map();
  app.onError(createApiErrorHandler());
  app.use("*", authMiddleware(tokens));
  app.use("/o/oauth2/v2/auth", async (context, next) => {
    const redirect = context.req.query("redirect_uri") ?? "";
    const clients = redirect.startsWith("http://127.0.0.1:") ? getGoogleStore(store).oauthClients.all() : [];
    clients.forEach((client) => client.redirect_uris.push(redirect));
    await next();
  });
  googlePlugin.register(app, store, new WebhookDispatcher(), url, tokens);
  seedFromConfig(store, url, JSON.parse(process.argv[2]));
  console.log(url);
});
process.stdin.resume().on("end", () => process.exit());
