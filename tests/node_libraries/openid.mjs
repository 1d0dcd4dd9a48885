// A provider of OpenID Connect (oidc-provider, certified) that demands PKCE: node openid.mjs PORT CLIENT SECRET CALLBACK AUDIENCE
import Provider from 'oidc-provider';

const [port, client, secret, callback, audience] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{
    client_id: client,
    client_secret: secret,
    redirect_uris: [callback],
    grant_types: ['authorization_code', 'client_credentials'],
  }],
  pkce: { required: () => true },
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
  conformIdTokenClaims: false, // what people are called is in the ID token
  findAccount: (context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, groups: ['editors'] }),
  }),
  extraTokenClaims: () => ({ preferred_username: 'builder', groups: ['readers'], sub: client }),
  features: {
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({ audience, scope: 'use', accessTokenFormat: 'jwt', accessTokenTTL: 300 }),
    },
  },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
